package iptables

import (
	"context"
	"strings"
)

// parse reads what iptables-save says of one table, as far as it can be compared.
func (f *familyState) parse(text, prefix string) *state {
	s := parseSaved(text, prefix)
	if f.blind {
		for name, print := range s.chains {
			s.chains[name] = strings.TrimSuffix(print, alteredMark)
		}
	}
	return s
}

// altered returns the names of the chains whose rules are not those of the digest that they carry.
func (f *familyState) altered() (names [numTables]map[string]bool) {
	for t, s := range f.have {
		for name, print := range s.chains {
			if isAltered(print) {
				if names[t] == nil {
					names[t] = make(map[string]bool)
				}
				names[t][name] = true
			}
		}
	}
	return names
}

// lookAgain reads chains back that looked altered and were restored since. If one still looks so, nobody altered
// it: this version of the programs prints rules in another way.
func (b *Backend) lookAgain(ctx context.Context, f *familyState, suspects [numTables]map[string]bool) error {
	for t, names := range suspects {
		if len(names) == 0 {
			continue
		}
		text, err := b.runner.save(ctx, f.family, table(t))
		if err != nil {
			return err
		}
		for name, print := range parseSaved(text, b.opts.Name).chains {
			f.blind = f.blind || names[name] && isAltered(print)
		}
	}
	return nil
}
