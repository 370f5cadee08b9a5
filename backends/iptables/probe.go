package iptables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/internal/process"
	"github.com/vipkit/vipkit/proxy/plan"
)

var _ backends.Prober = (*Backend)(nil)

// minimumVersion has the lock in iptables-restore and random-fully in MASQUERADE.
const minimumVersion = "iptables 1.6.2"

// A feature is a kind of rule that the programs, and the kernel they ask, may not know.
type feature struct {
	name  string
	table table
	rules []string
	only  func(p *plan.Port) bool // ports that need it, nil if all do
}

// features returns everything that a plan can need in a family.
func (f *family) features(o Options) []feature {
	l := &layout{family: f, mark: o.MasqueradeMark}
	return []feature{
		{name: "match conntrack", table: filter, rules: []string{words(newFlow, doReturn), words(translated, doReturn)}},
		{name: "match addrtype", table: nat, rules: []string{words(fromNode, doReturn)}},
		{name: "match mark", table: filter, rules: []string{words(l.marked(), doAccept)}},
		{name: "match statistic", table: nat, rules: []string{words(oneOf(2), doAccept)}},
		{name: "match comment", table: nat, rules: []string{`-m comment --comment "a b" ` + doAccept}},
		{name: "matches tcp and udp", table: nat, rules: []string{
			words(protocolTCP.only(), protocolTCP.module(), "--dport 80", doAccept),
			words(protocolUDP.only(), protocolUDP.module(), "--dport 80", doAccept),
		}},
		{name: "target MARK", table: nat, rules: []string{l.setMark(), l.clearMark()}},
		{name: "target DNAT", table: nat, rules: []string{
			protocolTCP.only() + " -j DNAT --to-destination " + f.loopback.Addr().String(),
		}},
		{name: "target MASQUERADE with random-fully", table: nat, rules: []string{doMasquerade}},
		{name: "target REJECT", table: filter, rules: []string{doReject}},
		{
			name: "match sctp", table: nat,
			rules: []string{words(protocolSCTP.only(), protocolSCTP.module(), "--dport 80", doAccept)},
			only:  func(p *plan.Port) bool { return protocolOf(p.Protocol) == protocolSCTP },
		},
		{
			name: "match recent", table: nat,
			rules: []string{words(remember("@TRY"), doAccept)},
			only:  func(p *plan.Port) bool { return p.AffinityTimeout > 0 },
		},
	}
}

// Probe tries the programs, the rights of the process and every kind of rule that a plan
// can need, in each family that the options name (both if none; then one is enough). Nothing
// is changed. What only some Services need, SCTP and session affinity, may be missing: their
// ports are then reported by Sync. The error joins everything else that is missing;
// see [backends.Prober].
func (b *Backend) Probe(ctx context.Context) error {
	var errs []error
	usable := 0
	for _, f := range b.wanted() {
		err := b.probeFamily(ctx, f)
		if err == nil {
			usable++
		}
		errs = append(errs, err)
	}
	if b.opts.Families == nil && usable > 0 {
		errs = nil
	}
	errs = append(errs, b.probeLocalnet())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("iptables: probe: %w", err)
	}
	return nil
}

func (b *Backend) probeFamily(ctx context.Context, f *family) error {
	if _, err := b.runner.version(ctx, f); err != nil {
		if process.Missing(err) {
			return &backends.UnsupportedError{Feature: "the " + f.command + " programs", Minimum: minimumVersion, Err: err}
		}
		return err
	}
	if err := b.try(ctx, f); err != nil {
		if process.Broke(err) {
			return err // which says nothing of what there is
		}
		if isForbidden(err) {
			return &backends.UnsupportedError{Feature: "the right CAP_NET_ADMIN", Err: err}
		}
		return &backends.UnsupportedError{Feature: f.command, Minimum: minimumVersion, Err: err}
	}
	var errs []error
	for _, ft := range f.features(b.opts) {
		if ft.only != nil {
			continue
		}
		if err := b.try(ctx, f, ft); process.Broke(err) {
			return err
		} else if err != nil {
			errs = append(errs, &backends.UnsupportedError{Feature: ft.name + " of " + f.command, Minimum: minimumVersion, Err: err})
		}
	}
	return errors.Join(errs...)
}

func isForbidden(err error) bool {
	text := err.Error()
	return strings.Contains(text, "ermission denied") || strings.Contains(text, "not permitted")
}

// probeLocalnet looks whether the sysctl can be read. To write the value it has would
// be a change in the eyes of who watches it.
func (b *Backend) probeLocalnet() error {
	if !b.opts.LocalhostNodePorts {
		return nil
	}
	if _, err := b.kernel.sysctl(routeLocalnet); err != nil {
		return &backends.UnsupportedError{Feature: "the sysctl route_localnet", Err: err}
	}
	return nil
}

// try asks the programs whether they would take some rules.
func (b *Backend) try(ctx context.Context, f *family, features ...feature) error {
	var text strings.Builder
	for t := range table(numTables) {
		c := chain{name: "TRY"}
		for _, ft := range features {
			if ft.table == t {
				c.rules = append(c.rules, ft.rules...)
			}
		}
		s := section{table: t, prefix: b.opts.Name, fill: []*chain{&c}}
		s.write(&text)
	}
	return b.runner.restore(ctx, f, text.String(), true)
}

// tryOptional asks for what only some ports need, once one of the changes needs it, so that
// most nodes never ask.
func (b *Backend) tryOptional(ctx context.Context, d *dialect, changes []plan.Change) (broke error) {
	d.untried = slices.DeleteFunc(d.untried, func(ft feature) bool {
		if broke != nil || !d.needs(changes, ft) {
			return false
		}
		err := b.try(ctx, d.family, ft)
		if process.Broke(err) || err != nil && isPassing(err.Error()) {
			broke = err // it is asked for again
			return false
		}
		if err != nil {
			d.missing = append(d.missing, missing{
				feature: ft,
				err:     &backends.UnsupportedError{Feature: ft.name + " of " + d.command, Err: err},
			})
		}
		return true
	})
	return broke
}

// needs reports whether a change brings a port that needs a feature.
func (d *dialect) needs(changes []plan.Change, ft feature) bool {
	return slices.ContainsFunc(changes, func(c plan.Change) bool {
		return c.After != nil && c.Key.Family == d.ip && ft.only(c.After)
	})
}

// optional returns the features that only some ports need.
func (f *family) optional(o Options) []feature {
	return slices.DeleteFunc(f.features(o), func(ft feature) bool { return ft.only == nil })
}

// isNFT reports whether the programs write nftables. Without programs nothing is written at all.
func (b *Backend) isNFT(ctx context.Context) (bool, error) {
	if b.opts.Variant != SystemVariant {
		return b.opts.Variant == NFT, nil
	}
	text, err := b.runner.version(ctx, families()[0])
	if err != nil && !process.Missing(err) {
		return false, fmt.Errorf("find out the variant: %w", err)
	}
	return strings.Contains(text, "nf_tables"), nil
}
