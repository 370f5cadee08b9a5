package allocator

// A Band is a part of a range. Both bands serve explicit requests alike;
// automatic picks take from the dynamic band while it lasts, so that addresses
// chosen by people collide rarely with addresses chosen by the allocator
// (KEP-3070 for ClusterIPs, KEP-3668 for node ports).
type Band uint8

// The bands of a range. Static numbers come first.
const (
	Static Band = iota
	Dynamic
)

// String returns "static" or "dynamic".
func (b Band) String() string {
	if b == Static {
		return "static"
	}
	return "dynamic"
}

// minBanded is the size up to which a range has no static band (the KEPs' text
// has "less than 16", Kubernetes has 16 included).
const minBanded = 16

// addressOffset returns the size of the static band of an address range. The
// formula takes the size of the prefix, not the number of usable addresses.
func addressOffset(size, usable uint64) uint64 {
	return bandOffset(size, usable, bandRule{divisor: 16, most: 256})
}

// portOffset returns the size of the static band of a port range.
func portOffset(size uint64) uint64 {
	return bandOffset(size, size, bandRule{divisor: 32, most: 128})
}

// A bandRule is what differs between addresses and ports.
type bandRule struct{ divisor, most uint64 }

func bandOffset(size, usable uint64, rule bandRule) uint64 {
	if size <= minBanded {
		return 0
	}
	offset := min(max(minBanded, size/rule.divisor), rule.most)
	if offset >= usable {
		return 0 // a static band must leave something to pick from
	}
	return offset
}
