// Package fake is a backend without a kernel, for tests of everything around
// it and of programs that use vipkit.
//
// A [Backend] is as incremental as a real one: it keeps a table of the ports it was
// given, writes only what the Changes of a Delta name, and rewrites everything
// only when the Delta is Full. So a change that somebody lost stays lost and is seen:
// Plan returns what is in place, Trace answers packets from it, and
// Violations lists where what was in place is not what the Delta's Before said.
//
// It fails as it is told to: a whole call, some ports, or in the middle of its
// work; and Wipe plays somebody else who flushes the rules. Calls are recorded.
package fake
