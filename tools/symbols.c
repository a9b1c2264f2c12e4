/*
 * symbols.c - see symbols.h. elfutils reads the files, with their debug information where it is
 * installed; a build without it knows no names.
 */
#include "tools/symbols.h"

#include <stdio.h>
#include <string.h>

#ifdef HAVE_LIBDW
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
#else
bool symbols_find(const char *path, uint64_t addr, struct symbol *out)
{
	*out = (struct symbol){.line = 0};
	return false;
}
#endif
