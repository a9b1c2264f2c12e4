/*
 * outfile.c - see outfile.h.
 */
#include "tools/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int outfile_open(struct outfile *o, const char *path)
{
	mode_t mask = umask(0);
	int fd, ret;

	umask(mask);
	o->path = path;
	if (snprintf(o->tmp, sizeof(o->tmp), "%s.XXXXXX", path) >= (int)sizeof(o->tmp))
		return -ENAMETOOLONG;
	fd = mkostemp(o->tmp, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	o->f = fchmod(fd, 0666 & ~mask) ? NULL : fdopen(fd, "w");
	if (o->f)
		return 0;
	ret = -errno;
	close(fd);
	unlink(o->tmp);
	return ret;
}

int outfile_close(struct outfile *o, int ret)
{
	errno = 0;
	if (!ret && (fflush(o->f) || ferror(o->f)))
		ret = errno ? -errno : -EIO;
	if (fclose(o->f) && !ret)
		ret = -errno;
	if (!ret && rename(o->tmp, o->path))
		ret = -errno;
	if (ret)
		unlink(o->tmp);
	return ret;
}
