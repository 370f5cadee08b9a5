//go:build unix

package manifests_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vipkit/vipkit/examples/internal/manifests"
)

// zeros is an input without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// hostile are files that could be read for ever, or that would fill the memory.
var hostile = []struct {
	name string
	make func(path string) error
	want error
}{
	{"fault F18 a pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) }, manifests.ErrNotRegular},
	{"fault F18 a device", func(path string) error { return os.Symlink("/dev/zero", path) }, manifests.ErrNotRegular},
	{"fault F18 a terminal", func(path string) error { return os.Symlink("/dev/ptmx", path) }, manifests.ErrNotRegular},
	{"fault F18 a file of 1 TiB", func(path string) error {
		return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
	}, manifests.ErrTooLarge},
	{"fault F18 a socket", func(path string) error {
		listener, err := net.Listen("unix", path)
		if err == nil {
			listener.(*net.UnixListener).SetUnlinkOnClose(false)
			err = listener.Close()
		}
		return err
	}, manifests.ErrNotRegular},
}

func TestHostileFiles(t *testing.T) {
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "x.yaml")
			if err := tt.make(path); err != nil {
				t.Skip(err)
			}
			if data, err := manifests.ReadFile(path); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), path) || data != nil {
				t.Errorf("%d bytes, %v; want %v and the name", len(data), err, tt.want)
			}
			if _, _, err := manifests.Load([]string{dir}, nil); !errors.Is(err, tt.want) {
				t.Errorf("Load: %v, want %v", err, tt.want)
			}
		})
	}
	t.Run("fault F18 standard input without end", func(t *testing.T) {
		if _, _, err := manifests.Load([]string{manifests.Stdin}, zeros{}); !errors.Is(err, manifests.ErrTooLarge) {
			t.Errorf("%v, want %v", err, manifests.ErrTooLarge)
		}
	})
}
