package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/vipkit/vipkit/examples/internal/manifests"
	"github.com/vipkit/vipkit/internal/bounded"
)

const (
	// pollInterval is how often the folder is looked at. Asking for the state of 2,000
	// files takes a few milliseconds, and unlike notifications it also works for
	// links, mounted volumes and folders that are replaced.
	pollInterval = 200 * time.Millisecond

	// settleTime is how long a file must not have been written before it is read:
	// an editor that writes in place first leaves an empty file, which would be a
	// valid one without objects. It is more than the granularity of time stamps.
	settleTime = 100 * time.Millisecond

	// settleLimit is how long a file that is written all the time is waited for.
	settleLimit = 500 * time.Millisecond
)

// A folder is a source that reads manifests from a folder and follows changes by
// looking at it again and again. What a file held last when it could be read stays
// until it can be read again or is removed.
type folder struct {
	path   string
	strict bool // a file that cannot be read at first is an error
	logger *slog.Logger

	files   map[string]*file
	current snapshot // what was delivered
	ready   bool     // everything was delivered once
	changed bool     // there is something to deliver
	err     string   // the folder's last error, told once
}

// A file is one manifest and what was read from it.
type file struct {
	objects *manifests.Objects // nil if it could never be read
	sum     [sha256.Size]byte  // of the content that objects come from
	seen    stamp              // when it was read
	unread  time.Time          // since when it differs from that, zero if it does not
	last    stamp              // at the last look
	since   time.Time          // since when it has been that
	missing bool               // the last look found a name without a file
	err     string             // why it could not be read, told once
}

// A stamp changes when a file is written or replaced.
type stamp struct {
	size, written int64 // written in nanoseconds since 1970
	inode         uint64
}

func newFolder(path string, strict bool, logger *slog.Logger) *folder {
	return &folder{path: path, strict: strict, logger: logger, files: map[string]*file{}}
}

// follow is as source says.
func (f *folder) follow(ctx context.Context, to *feed) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if err := f.look(time.Now(), to); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look reads what has changed and delivers it.
func (f *folder) look(now time.Time, to *feed) error {
	names, err := manifests.Files(f.path)
	if f.tell(err); err != nil {
		return f.strictly(err)
	}
	f.changed = f.forget(names) || f.changed
	var errs []error
	for _, name := range names {
		ok, err := f.visit(name, now)
		f.changed = f.changed || ok
		if err != nil {
			errs = append(errs, err)
		}
	}
	if err := f.strictly(bounded.Join(errs...)); err != nil {
		return err
	}
	if !f.complete() || f.ready && !f.changed {
		return nil
	}
	f.deliver(to)
	f.changed = false
	return nil
}

// strictly returns err if the caller wants to hear of it.
func (f *folder) strictly(err error) error {
	if err == nil || !f.strict {
		return nil
	}
	return fmt.Errorf("read %s: %w", f.path, err)
}

// tell logs an error of the folder itself when it comes and when it goes.
func (f *folder) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == f.err {
		return
	}
	f.err = text
	if err == nil {
		f.logger.Info("the folder can be read again", "folder", f.path)
		return
	}
	f.logger.Error("the folder cannot be read, its last objects stay", "folder", f.path, "error", err)
}

// forget drops files that are gone. The names are sorted.
func (f *folder) forget(names []string) (changed bool) {
	before := len(f.files)
	maps.DeleteFunc(f.files, func(name string, _ *file) bool {
		_, found := slices.BinarySearch(names, name)
		return !found
	})
	return len(f.files) != before
}

// visit reads a file if it was written since it was last read, and reports
// whether its objects may have changed.
func (f *folder) visit(name string, now time.Time) (changed bool, err error) {
	known := f.files[name]
	if known == nil {
		known = &file{}
		f.files[name] = known
	}
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) && !known.missing {
		known.missing = true // removed since it was listed, unless the next look finds it again
		return false, nil
	}
	if err != nil {
		return false, f.broken(known, err)
	}
	known.missing = false
	is := stampOf(info)
	if is == known.seen {
		known.unread = time.Time{}
		return false, nil
	}
	if known.unread.IsZero() {
		known.unread = now
	}
	settled := known.settled(is, info.ModTime(), now)
	if !settled && now.Sub(known.unread) < settleLimit {
		return false, nil
	}
	data, err := manifests.ReadFile(name)
	if err != nil {
		return false, f.broken(known, err)
	}
	known.seen, known.unread = is, time.Time{}
	if !settled {
		known.seen = stamp{} // it may change again without a new stamp
	}
	return f.parse(name, data, known)
}

// settled notes the stamp that a look found and reports whether the file has not been written for
// settleTime: by its time or, since that may be in the future (another clock, or one that
// was set back), by the looks.
func (k *file) settled(is stamp, written, now time.Time) bool {
	if is != k.last {
		k.last, k.since = is, now
	}
	return now.Sub(written) >= settleTime || now.Sub(k.since) >= settleTime
}

// parse takes the content of a file, unless it is what the objects come from.
func (f *folder) parse(name string, data []byte, known *file) (changed bool, err error) {
	sum := sha256.Sum256(data)
	if known.objects != nil && sum == known.sum {
		known.err = ""
		return false, nil
	}
	objects, notes, err := manifests.Parse(name, data)
	if err != nil {
		return false, f.broken(known, err)
	}
	for _, note := range notes {
		f.logger.Info(note)
	}
	known.objects, known.sum, known.err = objects, sum, ""
	return true, nil
}

// broken tells why a file cannot be read, unless it was told, and returns err.
func (f *folder) broken(known *file, err error) error {
	if known.err != err.Error() {
		known.err = err.Error()
		f.logger.Error("a file cannot be read, its last objects stay", "error", err)
	}
	return err
}

// complete reports whether nothing has to be waited for. At first every file must have been read,
// as what a broken one holds would be taken for deleted. Later a file that comes is waited for until it
// was tried: it may have the objects of one that went, but if it is broken, the others count.
func (f *folder) complete() bool {
	for _, known := range f.files {
		if known.objects == nil && !(f.ready && known.err != "") {
			return false
		}
	}
	return true
}

// deliver gives what differs from what was delivered before.
func (f *folder) deliver(to *feed) {
	lists := make([]*manifests.Objects, 0, len(f.files))
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		if o := f.files[name].objects; o != nil {
			lists = append(lists, o)
		}
	}
	next := newSnapshot(manifests.Merge(lists...))
	next.since(f.current, to)
	f.current = next
	if f.ready {
		return
	}
	f.ready, f.strict = true, false
	to.nodeReady() // flags may say all that is needed of it
	to.ready()
}
