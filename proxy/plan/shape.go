package plan

import "slices"

// A Shape is a row of the decision table in letters: what a frontend does with a packet, by origin in the order pod,
// node, outside. Frontends of one Shape can share what a data plane makes for it, under a name with these letters.
type Shape [NumOrigins]byte

// The letters of a Shape. [Frontend.Forwarding] uses the first five, [Frontend.Denying] the last three.
const (
	LetterCluster     = 'c' // to the cluster pool
	LetterClusterMasq = 'C' // to the cluster pool, masqueraded
	LetterLocal       = 'l' // to the local pool
	LetterLocalMasq   = 'L' // to the local pool, masqueraded
	LetterPass        = 'x' // left alone here
	LetterReject      = 'r'
	LetterDrop        = 'd'
)

// Forwarding returns the part of the row that translates packets.
func (f *Frontend) Forwarding() (s Shape) {
	for i, a := range f.orEmpty().Actions {
		s[i] = a.forwarding()
	}
	return s
}

func (f *Frontend) orEmpty() *Frontend {
	if f == nil {
		return &Frontend{}
	}
	return f
}

func (a Action) forwarding() byte {
	switch {
	case a.Verdict != Forward || a.Pool == NoPool:
		return LetterPass
	case a.Pool == LocalPool && a.Masquerade:
		return LetterLocalMasq
	case a.Pool == LocalPool:
		return LetterLocal
	case a.Masquerade:
		return LetterClusterMasq
	default:
		return LetterCluster
	}
}

// Denying returns the part of the row that decides about packets that were not translated.
func (f *Frontend) Denying() (s Shape) {
	for i, a := range f.orEmpty().Actions {
		switch a.Verdict {
		case Reject:
			s[i] = LetterReject
		case Drop:
			s[i] = LetterDrop
		case Pass, Forward:
			s[i] = LetterPass
		}
	}
	return s
}

// Has reports whether one of the origins has one of the letters.
func (s Shape) Has(letters ...byte) bool {
	return slices.ContainsFunc(s[:], func(l byte) bool { return slices.Contains(letters, l) })
}

// UsesCluster reports whether packets go to the cluster pool.
func (s Shape) UsesCluster() bool { return s.Has(LetterCluster, LetterClusterMasq) }

// UsesLocal reports whether packets go to the local pool.
func (s Shape) UsesLocal() bool { return s.Has(LetterLocal, LetterLocalMasq) }

// Forwards reports whether packets go to any pool.
func (s Shape) Forwards() bool { return s.UsesCluster() || s.UsesLocal() }

// Uniform returns the letter that all origins have; ok is false if they have several. With ignorePass,
// an origin that passes agrees with every letter.
func (s Shape) Uniform(ignorePass bool) (letter byte, ok bool) {
	letter = LetterPass
	for _, l := range s {
		if l != LetterPass {
			letter = l
		}
	}
	for _, l := range s {
		if l != letter && (!ignorePass || l != LetterPass) {
			return 0, false
		}
	}
	return letter, true
}

// String returns the letters, as in "cCC".
func (s Shape) String() string { return string(s[:]) }
