package backends_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/vipkit/vipkit/backends"
)

// TestStatsInALog uses an empty key, as backends do, so that the fields stand beside others.
func TestStatsInALog(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stats backends.Stats
		want  string
	}{
		{"nothing", backends.Stats{}, "full=false changes=0 duration=0s"},
		{
			"everything",
			backends.Stats{Full: true, Changes: 1, Written: 2, Commits: 3, Failed: 4, Draining: 5, Duration: time.Second},
			"full=true changes=1 written=2 commits=3 failed=4 draining=5 duration=1s",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			log := slog.New(slog.NewTextHandler(&out, nil))
			log.LogAttrs(context.Background(), slog.LevelInfo, "sync", slog.Any("", tt.stats))
			if got := out.String(); !strings.HasSuffix(got, "msg=sync "+tt.want+"\n") {
				t.Errorf("logged %q, want %q", got, tt.want)
			}
		})
	}
}
