package nftables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/internal/process"
)

var _ backends.Prober = (*Backend)(nil)

// Minimum versions. Older nft programs read the rules of everybody at every start, and
// can crash on them. The kernel's is what kube-proxy asks for as well.
const (
	minimumNFT    = "nft 1.0.1"
	minimumKernel = "Linux 5.13"
)

// Probe tries the nft program, the version of the kernel, the rights of the process and every kind of rule that
// a plan can need, in each family that the options name (both if none; then one is
// enough). Nothing is changed: the kernel only says what it would accept. The error joins everything that is
// missing; see [backends.Prober].
func (b *Backend) Probe(ctx context.Context) error {
	if err := b.probeProgram(ctx); err != nil {
		return fmt.Errorf("nftables: probe: %w", err) // without it nothing else can be asked
	}
	err := errors.Join(b.probeKernel(), b.probeFamilies(ctx))
	if err != nil {
		return fmt.Errorf("nftables: probe: %w", err)
	}
	return nil
}

func (b *Backend) probeProgram(ctx context.Context) error {
	text, err := b.runner.version(ctx)
	if process.Broke(err) && !process.Missing(err) {
		return err // no file descriptors left, for instance: it may be there
	}
	if err == nil && !atLeast(text, 1, 0, 1) {
		err = fmt.Errorf("have %q", text)
	}
	if err != nil {
		return &backends.UnsupportedError{Feature: "the nft program", Minimum: minimumNFT, Err: err}
	}
	return nil
}

func (b *Backend) probeKernel() error {
	if b.opts.SkipKernelVersion {
		return nil
	}
	release, err := b.kernel.release()
	if err == nil && !atLeast(release, 5, 13) {
		err = fmt.Errorf("have %q", release)
	}
	if err != nil {
		return &backends.UnsupportedError{Feature: "a tested kernel", Minimum: minimumKernel, Err: err}
	}
	return nil
}

// atLeast reports whether the first version number in text is at least want.
func atLeast(text string, want ...int) bool {
	start := strings.IndexFunc(text, func(r rune) bool { return r >= '0' && r <= '9' })
	if start < 0 {
		return false
	}
	rest := text[start:]
	for _, w := range want {
		end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(rest)
		}
		n, _ := strconv.Atoi(rest[:end])
		if c := cmp.Compare(n, w); c != 0 {
			return c > 0
		}
		rest = strings.TrimPrefix(rest[end:], ".")
	}
	return true
}

// probeFamilies returns what is missing in the families that the options name; if they name
// none, nothing as long as one of them has everything.
func (b *Backend) probeFamilies(ctx context.Context) error {
	var errs []error
	usable := 0
	for _, f := range b.wanted() {
		err := b.probeFeatures(ctx, f)
		if err == nil {
			usable++
		}
		errs = append(errs, err)
	}
	if b.opts.Families == nil && usable > 0 {
		return nil
	}
	return errors.Join(errs...)
}

// probeFeatures asks for everything at once, and one by one only if something is refused. An error
// that is no UnsupportedError leaves open what there is.
func (b *Backend) probeFeatures(ctx context.Context, f *family) error {
	all := f.features(b.opts)
	if err := b.try(ctx, f, all...); err == nil || process.Broke(err) {
		return err
	}
	var errs []error
	for _, ft := range all {
		err := b.try(ctx, f, ft)
		switch {
		case process.Broke(err):
			return err
		case errors.Is(err, fs.ErrPermission):
			return fmt.Errorf("no rights to change nftables (CAP_NET_ADMIN is needed): %w", err)
		case err != nil:
			errs = append(errs, &backends.UnsupportedError{Feature: ft.name + " in " + string(f.ip), Minimum: ft.minimum, Err: err})
		}
	}
	return errors.Join(errs...)
}

// try asks the kernel whether it takes pieces of the rules, each in a table of its own.
func (b *Backend) try(ctx context.Context, f *family, features ...feature) error {
	edits := make([]*edit, 0, len(features))
	for i := range features {
		e := newEdit(newTable(f), &layout{table: fmt.Sprintf("%s-probe-%d", b.opts.Name, i)}, time.Time{})
		e.take(&item{kind: createItem, before: &program{}, after: &features[i].program})
		edits = append(edits, e)
	}
	tx := &transaction{}
	write(tx, edits)
	text, err := tx.bytes()
	if err != nil {
		return err
	}
	return b.runner.check(ctx, text)
}
