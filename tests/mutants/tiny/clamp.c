/* clamp.c - @v, but at least @lo and at most @hi */
int clamp(int v, int lo, int hi);

int clamp(int v, int lo, int hi)
{
	if (v < lo)
		return lo;
	while (v > hi)
		v = hi;
	return v;
}
