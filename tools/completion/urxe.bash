# urxe.bash - completion for bash. What there is to complete, urxe says itself (urxe help).

_urxe_commands() {
	urxe help 2>/dev/null | sed -nE 's/^  urxe ([a-z]+)  +[a-z].*/\1/p'
	echo help
}

# _urxe_options COMMAND - lines "OPTION VALUE"; without VALUE if it takes none, "OPTION= VALUE" if it may
_urxe_options() {
	urxe help "$1" 2>/dev/null | sed -nE \
		-e 's/^  (-[a-z], )?(--[a-z-]+)\[=([^ ]+)\](  .*)?$/\2= \3/p' \
		-e 's/^  (-[a-z], )?(--[a-z-]+)( ([^ ]+))?(  .*)?$/\2 \4/p'
}

# _urxe_is OPTION - its line among the options of the command; 1 if it is none of them
_urxe_is() {
	_urxe_options "$command" | grep -E -m 1 -- "^$1=? "
}

# _urxe_values VALUE - what may stand for it: the words of a|b|c, or files
_urxe_values() {
	local word words=
	for word in ${1//|/ }; do
		case $word in
		*FILE* | *DIR* | PAGE*)
			compopt -o filenames 2>/dev/null
			COMPREPLY+=($(compgen -f -- "$cur"))
			;;
		*[A-Z]*) ;;
		*) words+=" $word" ;;
		esac
	done
	COMPREPLY+=($(compgen -W "$words" -- "$cur"))
}

# Where on the line the program begins that urxe runs; nothing if it does not yet
_urxe_program() {
	local i=2 line
	while [ "$i" -lt "$COMP_CWORD" ]; do
		case ${COMP_WORDS[i]} in
		--)
			echo $((i + 1))
			return
			;;
		-*)
			line=$(_urxe_is "${COMP_WORDS[i]}")
			[ "${COMP_WORDS[i + 1]}" != = ] || i=$((i + 2))
			# a value that is a word of its own
			case $line in
			*=\ *) ;;
			*\ ?*) [ "${COMP_WORDS[i - 1]}" = = ] || i=$((i + 1)) ;;
			esac
			;;
		*)
			echo "$i"
			return
			;;
		esac
		i=$((i + 1))
	done
	case ${COMP_WORDS[i]} in
	-* | =) ;;
	*) [ "$i" -gt "$COMP_CWORD" ] || echo "$i" ;;
	esac
}

_urxe() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} line at=
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ] || [ "$COMP_CWORD$command" = 2help ]; then
		COMPREPLY=($(compgen -W "$(_urxe_commands) --help --version" -- "$cur"))
		return
	fi
	# --option=VALUE is three words to bash
	if [ "$cur" = = ]; then
		cur=
	elif [ "$prev" = = ]; then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	else
		line=$(_urxe_is "$prev")
		[[ $line != *=\ * ]] || prev= # no value without =
	fi
	if [ "$command" = run ] || [ "$command" = sweep ]; then
		at=$(_urxe_program)
	fi
	if [ -n "$at" ] && declare -F _command_offset >/dev/null; then
		_command_offset "$at"
	elif [ -n "$at" ] && [ "$at" = "$COMP_CWORD" ]; then
		COMPREPLY=($(compgen -c -- "$cur"))
	elif [[ $prev == --* ]] && line=$(_urxe_is "$prev") && [ -n "${line#* }" ]; then
		_urxe_values "${line#* }"
	elif [ -z "$at" ] && [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$(_urxe_options "$command" | sed -E 's/^([^ =]+)= .*/\1 \1=/;t;s/ .*//')" -- "$cur"))
		[[ ${COMPREPLY[*]} != *= ]] || compopt -o nospace 2>/dev/null
	else
		COMPREPLY=($(compgen -f -- "$cur"))
	fi
}
complete -F _urxe urxe
