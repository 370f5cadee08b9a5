package plan

// EqualPorts reports whether two ports have the same content; both may be nil.
func EqualPorts(a, b *Port) bool { return a == b || a.equal(b) }
