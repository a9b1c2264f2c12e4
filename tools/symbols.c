/*
 * symbols.c - see symbols.h. elfutils reads the files, with their debug information where it is
 * installed; a build without it knows no names.
 */
#include "tools/symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_LIBDW
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

static Dwfl *session(void)
{
	static char *debug_path;
	static const Dwfl_Callbacks callbacks = {
	    .find_elf = dwfl_build_id_find_elf,
	    .find_debuginfo = dwfl_standard_find_debuginfo,
	    .section_address = dwfl_offline_section_address,
	    .debuginfo_path = &debug_path,
	};
	static Dwfl *dwfl;

	if (!dwfl)
		dwfl = dwfl_begin(&callbacks);
	return dwfl;
}

/* struct by_name - the module that was reported as @path */
struct by_name {
	const char *path;
	Dwfl_Module *found;
};

static int is_named(Dwfl_Module *mod, void **user, const char *name, Dwarf_Addr start,
		    void *arg)
{
	struct by_name *want = arg;

	if (strcmp(name, want->path))
		return DWARF_CB_OK;
	want->found = mod;
	return DWARF_CB_ABORT;
}

static Dwfl_Module *module_of(const char *path)
{
	struct by_name want = {.path = path};
	Dwfl *dwfl = session();

	if (!dwfl || !*path)
		return NULL;
	dwfl_getmodules(dwfl, is_named, &want, 0);
	if (want.found)
		return want.found;
	dwfl_report_begin_add(dwfl);
	want.found = dwfl_report_offline(dwfl, path, path, -1);
	dwfl_report_end(dwfl, NULL, NULL);
	return want.found;
}

bool symbols_find(const char *path, uint64_t addr, struct symbol *out)
{
	Dwfl_Module *mod = module_of(path);
	const char *name, *source;
	Dwarf_Addr bias = 0;
	Dwfl_Line *line;
	GElf_Sym sym;
	GElf_Off off;

	*out = (struct symbol){.line = 0};
	if (!mod || !dwfl_module_getelf(mod, &bias))
		return false;
	name = dwfl_module_addrinfo(mod, addr + bias, &off, &sym, NULL, NULL, NULL);
	if (name)
		snprintf(out->function, sizeof(out->function), "%s", name);
	line = dwfl_module_getsrc(mod, addr + bias);
	source = line ? dwfl_lineinfo(line, NULL, &out->line, NULL, NULL, NULL) : NULL;
	if (source)
		snprintf(out->source, sizeof(out->source), "%s", source);
	return name || source;
}
/* Where the call is that the compiler replaced by the function, *@source NULL: not known */
static int call_of(Dwarf_Die *cu, Dwarf_Die *inlined, const char **source)
{
	Dwarf_Attribute attr;
	Dwarf_Files *files;
	Dwarf_Word line = 0, file = 0;

	*source = NULL;
	if (!dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attr), &line) &&
	    !dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attr), &file) &&
	    !dwarf_getsrcfiles(cu, &files, NULL))
		*source = dwarf_filesrc(files, file, NULL, NULL);
	return (int)line;
}

bool symbols_outer(const char *path, uint64_t addr, struct symbol *out)
{
	bool known = symbols_find(path, addr, out);
	Dwfl_Module *mod = module_of(path);
	Dwarf_Addr bias = 0, to_dwarf = 0;
	Dwarf_Die *scopes = NULL, *cu;
	int n;

	if (!known || !mod || !dwfl_module_getelf(mod, &bias))
		return known;
	cu = dwfl_module_addrdie(mod, addr + bias, &to_dwarf);
	n = cu ? dwarf_getscopes(cu, addr + bias - to_dwarf, &scopes) : 0;
	for (int i = 0; i < n; i++) { /* the innermost first */
		const char *source = NULL;
		int line = dwarf_tag(&scopes[i]) == DW_TAG_inlined_subroutine
			       ? call_of(cu, &scopes[i], &source)
			       : 0;

		if (!source)
			continue;
		snprintf(out->source, sizeof(out->source), "%s", source);
		out->line = line;
	}
	free(scopes);
	return known;
}
#else
bool symbols_find(const char *path, uint64_t addr, struct symbol *out)
{
	*out = (struct symbol){.line = 0};
	return false;
}

bool symbols_outer(const char *path, uint64_t addr, struct symbol *out)
{
	return symbols_find(path, addr, out);
}
#endif
