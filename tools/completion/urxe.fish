# urxe.fish - completion for fish. What there is to complete, urxe says itself (urxe help).

# Commands with what they do
function __urxe_commands
    urxe help 2>/dev/null | string replace -rf '^  urxe ([a-z]+)  +([a-z].*)' '$1\t$2'
    printf 'help\toptions of a command\n'
end

# The command of this line, if there is one already
function __urxe_command
    set -l words (commandline -opc)
    test (count $words) -ge 2; and echo $words[2]
end

# Options of a command; those that may have a value with = and each word of the value, too
function __urxe_options
    urxe help $argv[1] 2>/dev/null | string replace -rf \
        '^  (?:-[a-z], )?(--[a-z-]+)(\[=[^ ]+\]| [^ ]+)?(?:  .*)?$' '$1$2' | while read -l line
        set -l option (string match -r '^--[a-z-]+' -- $line)
        set -l value (string replace -r '^--[a-z-]+(\[=| )?' '' -- $line | string replace -r '\]$' '')
        echo $option
        for word in (string split '|' -- $value | string match -rv '[A-Z]|^$')
            echo $option=$word
        end
    end
end

# The words after `run` and its options: a command line of its own
function __urxe_runs_program
    set -l words (commandline -opc)
    test (count $words) -ge 3; and contains -- "$words[2]" run sweep; or return 1
    set -l with_value (urxe help $words[2] 2>/dev/null | string replace -rf '^  (--[a-z-]+) [^ ].*' '$1')
    set -l skip no
    for word in $words[3..-1]
        if test $skip = yes
            set skip no
        else if contains -- $word $with_value
            set skip yes
        else if test "$word" = --; or not string match -q -- '-*' $word
            return 0
        end
    end
    return 1
end

complete -c urxe -n 'test -z (__urxe_command)' -f -a '(__urxe_commands)'
complete -c urxe -n 'test (__urxe_command) = help' -f -a '(__urxe_commands)'
complete -c urxe -n 'not __urxe_runs_program; and string match -q -- "-*" (commandline -ct)' -f \
    -a '(__urxe_options (__urxe_command))'
complete -c urxe -n 'contains -- (__urxe_command) run sweep; and not __urxe_runs_program' -a '(__fish_complete_command)'
complete -c urxe -n __urxe_runs_program -f -a '(__fish_complete_subcommand --fcs-skip=2)'
