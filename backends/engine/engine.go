package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/proxy/plan"
)

// An Object is one thing in the data plane: a map element, a chain, a virtual server. ID says
// which one it is and Value what is in it. Ports that want the same ID with equal Values share it.
type Object[ID comparable, V any] struct {
	ID    ID
	Value V

	// Shared says that another port may want the same ID. An ID that is not Shared is one that a plan gives to one
	// port only, such as that of a frontend. A change of a port costs time in the number of ports that want its objects, so
	// what all ports want belongs to no port: see Compile.
	Shared bool

	// Rank decides between different Values for one ID: the highest wins.
	Rank uint8
}

// An Edit changes one object. Old is nil if it is new, New is nil if it goes. Neither may be changed.
type Edit[ID comparable, V any] struct {
	ID       ID
	Old, New *V
}

// ErrRefused is wrapped by errors of [Dialect.Write] that say: the data plane cannot do a part of the
// edits, and has done none of them. The engine finds out which part.
var ErrRefused = errors.New("refused by the data plane")

// ErrHalfway is wrapped, beside [ErrRefused], by errors of a data plane without transactions: some edits may have been made. The
// engine writes the reverse before it goes on.
var ErrHalfway = errors.New("done in part")

// A Dialect is what one data plane needs and others do not. Its methods are never called at the same time.
type Dialect[ID comparable, V any] interface {
	// Compile returns the objects of a port of p; of those with the same ID the first counts. For a nil port it returns the
	// objects that belong to no port: those of the node and the configuration. Its result depends on the arguments only, and
	// is not changed later. prev is nil unless [Options].Remember says otherwise: then it is what the port has in place.
	//
	// A port that Compile returns an error for stays as it is in the data plane. An error for the nil port ends the Sync.
	Compile(p *plan.Plan, port *plan.Port, prev []Object[ID, V]) ([]Object[ID, V], error)

	// Equal reports whether a is what b is, so that nothing needs to be written.
	Equal(a, b V) bool

	// List yields everything in the data plane that carries the name of the backend, also what an earlier version left.
	// What cannot be read is an error.
	List(ctx context.Context) (iter.Seq2[ID, V], error)

	// Write makes the edits, in the order that disturbs no packet; no two have the same ID. That an object which is to be made exists, or one that
	// is to be removed does not, is no error. See [ErrRefused] for errors after which the engine goes on. After any other one it lists.
	Write(ctx context.Context, edits []Edit[ID, V]) error
}

// Options are for [New]. The zero value is ready for use.
type Options struct {
	// Name begins the texts of errors and log lines; "engine" if it is empty.
	Name string

	// PieceSize is about how many objects may be in one call of Write; 0 is no limit. Ports that
	// exchange objects are never in different pieces.
	PieceSize int

	// Remember chooses ports whose objects depend on what they were before, for example because the numbers
	// of their endpoints must stay. It may be nil.
	Remember func(*plan.Port) bool

	// OnSync is called after every Sync; it may be nil.
	OnSync func(backends.Stats)

	// Logger gets a line for each Sync, at the level Debug; it may be nil.
	Logger *slog.Logger
}

// An Engine is a [backends.Backend] and a [backends.Checker] for one data plane. Its methods are safe for concurrent use;
// only LastStats does not wait for the others.
type Engine[ID comparable, V any] struct {
	dialect Dialect[ID, V]
	opts    Options

	mu sync.Mutex

	// base is the plan that is in place, but for the ports in held. If known is false, that is a guess.
	base  *plan.Plan
	known bool

	held   map[plan.Key]version[ID, V]
	kept   map[plan.Key][]Object[ID, V] // of ports chosen by Options.Remember
	claims claims[ID, V]

	// strays is what is in the data plane and no port has: while a Sync that lists goes on, all that it has
	// not come to yet; otherwise what could not be removed.
	strays map[ID]V

	statsMu sync.Mutex
	stats   backends.Stats
}

// A version is what is in place of a port that could not be written.
type version[ID comparable, V any] struct {
	port    *plan.Port // has the key
	objects []Object[ID, V]
}

// New returns an Engine. It reads and writes nothing.
func New[ID comparable, V any](d Dialect[ID, V], opts Options) *Engine[ID, V] {
	if opts.Name == "" {
		opts.Name = "engine"
	}
	e := &Engine[ID, V]{dialect: d, opts: opts}
	e.forget()
	return e
}

func (e *Engine[ID, V]) forget() {
	e.base, e.known = nil, false
	e.held, e.kept = make(map[plan.Key]version[ID, V]), make(map[plan.Key][]Object[ID, V])
	e.claims, e.strays = make(claims[ID, V]), nil
}

// Sync makes the data plane equal d.New. It lists only if d is Full or d.Base is not what it wrote last; otherwise the cost
// is that of the changes, and of compiling every port if d.Config is true.
//
// Its errors are those of [backends.Backend]. Ports that Compile or the data plane refuses are named in a
// [plan.PartialError] and keep what no other port got.
func (e *Engine[ID, V]) Sync(ctx context.Context, d *plan.Delta) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	start := time.Now()
	r := &round[ID, V]{e: e, delta: d, bad: make(map[plan.Key]error)}
	err := r.sync(ctx)
	if err != nil {
		e.known = false
	} else {
		e.base, e.known = d.New, true
		if r.stats.Failed = len(r.bad); len(r.bad) > 0 {
			err = &plan.PartialError{Ports: r.bad}
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: sync: %w", e.opts.Name, err)
	}
	r.stats.Changes, r.stats.Duration = len(d.Changes), time.Since(start)
	e.report(ctx, r.stats, err)
	return err
}

func (e *Engine[ID, V]) report(ctx context.Context, s backends.Stats, err error) {
	e.statsMu.Lock()
	e.stats = s
	e.statsMu.Unlock()
	if e.opts.OnSync != nil {
		e.opts.OnSync(s)
	}
	if e.opts.Logger != nil {
		e.opts.Logger.LogAttrs(ctx, slog.LevelDebug, e.opts.Name+" sync", slog.Any("", s), slog.Any("error", err))
	}
}

// LastStats returns what the last Sync did.
func (e *Engine[ID, V]) LastStats() backends.Stats {
	e.statsMu.Lock()
	defer e.statsMu.Unlock()
	return e.stats
}

// Cleanup removes everything that [Dialect.List] yields.
func (e *Engine[ID, V]) Cleanup(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forget()
	found, err := e.dialect.List(ctx)
	if err != nil {
		return fmt.Errorf("%s: clean up: list: %w", e.opts.Name, err)
	}
	edits := removals[ID, V](maps.Collect(found), nil)
	for len(edits) > 0 {
		piece := edits[:min(len(edits), e.pieceSize())]
		edits = edits[len(piece):]
		if err := e.dialect.Write(ctx, piece); err != nil {
			return fmt.Errorf("%s: clean up: %w", e.opts.Name, err)
		}
	}
	return nil
}
