/*
 * page_data.h - what the page shows: records, compressed, and what is said of them.
 */
#ifndef URXE_TOOLS_PAGE_DATA_H
#define URXE_TOOLS_PAGE_DATA_H

#include <stdint.h>
#include <stdio.h>

struct findings;
struct timeline;
struct trace_reader;

struct page_records;
/* NULL: no memory */
struct page_records *page_records_new(void);
void page_records_free(struct page_records *p);

/* A block of records as text: zlib's format (RFC 1950) in base64 */
typedef void page_block_fn(void *arg, const char *base64, size_t n);
/*
 * page_records_put - give @fn what @tl has, in blocks; all of it is told to @f. It may be called
 * again when there is more. 0 or -ENOMEM
 */
int page_records_put(struct page_records *p, struct timeline *tl, struct findings *f,
		     page_block_fn *fn, void *arg);
/* A JSON object: kinds and names, traces, findings */
void page_about(struct trace_reader **t, int n, const struct timeline *tl,
		struct findings *f, const struct page_records *p, FILE *out);

/*
 * The page up to its data and from there on, made from tools/page/. What stands between: elements
 * with records, and the element "about"; or nothing, then it asks for "data".
 */
extern const char page_head[], page_tail[];

#endif
