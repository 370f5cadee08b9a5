package backends

import (
	"log/slog"
	"time"
)

// Stats describe one Sync or Cleanup of a Backend that is a [Reporter]. The backends of this module give them to
// their option OnSync too. A field that does not apply to a data plane is 0.
type Stats struct {
	// Full says that the data plane was read and compared as a whole.
	Full bool

	// Changes is how many Service ports the call was about. A full Sync counts those that differed from the
	// data plane, or all if it cannot know.
	Changes int

	// Written is how many objects of the data plane were made, changed or removed, in its own unit: nft statements,
	// lines of iptables-restore, requests to IPVS, edits of an engine.
	Written int

	// Commits is how many writes the data plane took; each is all or nothing: transactions of nftables, tables of
	// iptables, requests to IPVS. Writes that it refused do not count.
	Commits int

	// Failed is how many Service ports could not be written: those of the [plan.PartialError].
	Failed int

	// Draining is how many endpoints are removed but still have open connections, as last seen; see [Sweeper].
	Draining int

	// Duration is that of the whole call.
	Duration time.Duration
}

// LogValue returns the fields that are not 0, besides full, changes and duration.
func (s Stats) LogValue() slog.Value {
	attrs := []slog.Attr{slog.Bool("full", s.Full), slog.Int("changes", s.Changes)}
	for _, n := range []struct {
		name  string
		value int
	}{{"written", s.Written}, {"commits", s.Commits}, {"failed", s.Failed}, {"draining", s.Draining}} {
		if n.value != 0 {
			attrs = append(attrs, slog.Int(n.name, n.value))
		}
	}
	return slog.GroupValue(append(attrs, slog.Duration("duration", s.Duration))...)
}
