package shadow

import (
	"math/rand"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// The environment of the tests with random objects.
const (
	SeedVariable    = "VIPKIT_UPSTREAM_SEED"    // a number; 1 if not set
	PercentVariable = "VIPKIT_UPSTREAM_PERCENT" // of the rounds of the whole run; 1 if not set
)

// The node that endpoints may be on, and its zone. There are others.
const (
	NodeName = "n1"
	Zone     = "za"
)

// A Generator makes random objects. It is not safe for concurrent use.
type Generator struct {
	*rand.Rand
	Options Options
}

// Options choose what objects a Generator makes.
type Options struct {
	Family     corev1.IPFamily
	Names      int  // how many Services there are
	Valid      bool // only what the API accepts
	Duplicates bool // one address in several slices, or several times in one
	Bad        bool // addresses, ports and ranges that the API refuses
	NoNames    bool // ports of slices without a name
	NoAffinity bool // upstream's tracers cannot follow rules for session affinity
}

// A Kind is one kind of random objects, and for how many rounds of a whole run.
type Kind struct {
	Name    string
	Options Options
	Rounds  int
}

// Kinds returns the kinds of objects that trackers are given.
func Kinds() []Kind {
	return []Kind{
		{"plain", Options{Names: 3}, 4000},
		{"duplicates", Options{Names: 3, Duplicates: true}, 1000},
		{"bad", Options{Names: 3, Bad: true}, 500},
		{"ports without names", Options{Names: 3, NoNames: true}, 500},
	}
}

// NewGenerator returns one that is seeded from the environment.
func NewGenerator(opts Options) *Generator {
	return &Generator{Rand: rand.New(rand.NewSource(number(SeedVariable, 1))), Options: opts}
}

// Rounds returns how many of the n rounds of a whole run are to be made, at least one.
func Rounds(n int) int { return max(1, n*int(number(PercentVariable, 1))/100) }

func number(variable string, otherwise int64) int64 {
	n, err := strconv.ParseInt(os.Getenv(variable), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// Family returns the families in turn.
func Family(round int) corev1.IPFamily {
	if round%2 == 1 {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// Percent is true n times of 100.
func (g *Generator) Percent(n int) bool { return g.Intn(100) < n }

// Pick returns one of the values.
func Pick[T any](g *Generator, values ...T) T { return values[g.Intn(len(values))] }

// condition is true or false so many times of 100, and otherwise nil.
func (g *Generator) condition(yes, no int) *bool {
	switch n := g.Intn(100); {
	case n < yes:
		return new(true)
	case n < yes+no:
		return new(false)
	}
	return nil
}

func (g *Generator) isIPv6() bool { return g.Options.Family == corev1.IPv6Protocol }

func zones() []string { return []string{Zone, "zb", "zc"} }

func nodes() []string { return []string{NodeName, "n2", "n3"} }

func protocols() []corev1.Protocol {
	return []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
}
