package main

// A stage is a set of tests that may notice a fault.
type stage struct {
	kind string // as the report calls it
	dir  string // the package of the tests
	// suite: the scenarios of TestConformance, each on its own; otherwise all other tests.
	suite bool
}

// Kinds of stages.
const (
	unit  = "unit tests"
	above = "tests of a package above"
	suite = "suite"
)

const fakeDir = "backends/fake"

// A target is a package whose faults are to be noticed, and by what, in this order.
type target struct {
	dir    string
	stages []stage
}

// targets lists the packages that decide what happens to a packet.
func targets() []target {
	return []target{
		pure("endpoints", "proxy/plan"),
		pure("topology", "proxy/plan"),
		pure("proxy/plan", "proxy"),
		pure("backends/engine", fakeDir),
		dataPlane(fakeDir),
		dataPlane("backends/nftables"),
		dataPlane("backends/iptables"),
		dataPlane("backends/ipvs"),
	}
}

// pure is a package without a kernel: the suite of the fake is its judge.
func pure(dir, user string) target {
	return target{dir, []stage{
		{kind: unit, dir: dir},
		{kind: above, dir: user},
		{kind: above, dir: "."}, // values made by hand
		{kind: suite, dir: fakeDir, suite: true},
	}}
}

func dataPlane(dir string) target {
	return target{dir, []stage{
		{kind: unit, dir: dir},
		{kind: suite, dir: dir, suite: true},
	}}
}
