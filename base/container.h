/*
 * container.h - from a member to the structure that it is part of.
 *
 * What is in base/ may be used everywhere: it knows nothing of the rest.
 */
#ifndef URXE_BASE_CONTAINER_H
#define URXE_BASE_CONTAINER_H

#include <stddef.h>

/* The structure of @type whose @member @ptr points to */
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#endif
