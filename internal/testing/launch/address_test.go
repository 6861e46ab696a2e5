package launch

import "testing"

// Addresses that are free at the same moment differ.
func TestFreeAddresses(t *testing.T) {
	seen := map[string]bool{}
	for range 2000 { // by chance alone, a hundred would repeat
		a, err := FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		if seen[a] {
			t.Fatalf("%s was returned twice", a)
		}
		seen[a] = true
	}
}
