// Late.java - opens the first device when a library of its own is loaded.
public class Late {
	public static void main(String[] args) {
		System.load(args[0]);
	}
}
