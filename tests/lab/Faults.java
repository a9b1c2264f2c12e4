/* Faults of a Java program that the virtual machine takes as signals: null checks, stacks that
 * overflow, and what its collector does. Prints "java: N null, N overflow, N allocated". */
public class Faults {
	int value;
	static Object keep;

	static int get(Faults f) {
		return f.value;
	}

	static int deep(int n) {
		return deep(n + 1) + 1;
	}

	public static void main(String[] args) throws Exception {
		long end = System.currentTimeMillis() + Long.parseLong(args[0]);
		Faults there = new Faults();
		long nulls = 0, overflows = 0, allocated = 0;

		while (System.currentTimeMillis() < end) {
			for (int i = 0; i < 2000; i++) {
				try {
					get(i % 100 == 0 ? null : there);
				} catch (NullPointerException e) {
					nulls++;
				}
			}
			try {
				deep(0);
			} catch (StackOverflowError e) {
				overflows++;
			}
			for (int i = 0; i < 50; i++) {
				keep = new byte[100000];
				allocated++;
			}
		}
		System.out.println("java: " + nulls + " null, " + overflows + " overflow, " + allocated +
			" allocated");
	}
}
