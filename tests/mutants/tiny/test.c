/* test.c - of clamp(): the lower bound, and with UPPER the upper one */
int clamp(int v, int lo, int hi);

int main(void)
{
#ifdef UPPER
	return clamp(9, 1, 5) != 5;
#else
	return clamp(-9, 1, 5) != 1 || clamp(3, 1, 5) != 3;
#endif
}
