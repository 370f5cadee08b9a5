package manifests_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipkit/vipkit/examples/internal/manifests"
)

// service is a Service whose type tells where it was read.
func service(name, kind string) string {
	return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + "}\nspec: {type: " + kind + "}\n---\n"
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "20.yml"), service("a", "second")+service("b", "second"))
	write(t, filepath.Join(dir, "10.yaml"), service("a", "first")+service("c", "first"))
	write(t, filepath.Join(dir, "30.json"), jsonB)
	write(t, filepath.Join(dir, "readme.txt"), "kind: [")
	write(t, filepath.Join(dir, ".20.yaml"), "kind: [")
	write(t, filepath.Join(dir, "sub.yaml", "x.yaml"), service("x", "sub"))
	single := filepath.Join(dir, "readme.conf")
	write(t, single, service("c", "single")+service("d", "single")+service("d", "later"))

	o, notes, err := manifests.Load([]string{dir, "-", single}, strings.NewReader(service("b", "stdin")))
	if err != nil || len(notes) > 0 {
		t.Fatalf("Load: notes %q, error %v", notes, err)
	}
	var got []string
	for _, s := range o.Services {
		got = append(got, s.Name+" "+string(s.Spec.Type))
	}
	want := []string{"a second", "b stdin", "c single", "d later", "b "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Services (-want +got):\n%s", diff)
	}
}

func TestLoadEmptyFolder(t *testing.T) {
	t.Run("fault F32 a folder without manifests is said", func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "sub", "x.yaml"), service("x", "sub"))
		o, notes, err := manifests.Load([]string{dir}, nil)
		if err != nil || len(names(o)) > 0 {
			t.Errorf("Load = %v, %v; want nothing", names(o), err)
		}
		if diff := cmp.Diff([]string{dir + ": no *.yaml, *.yml or *.json in this folder"}, notes); diff != "" {
			t.Errorf("notes (-want +got):\n%s", diff)
		}
	})
}

func TestLoadErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	if _, _, err := manifests.Load([]string{missing}, nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("missing file: error %v", err)
	}
	dangling := t.TempDir()
	if err := os.Symlink(missing, filepath.Join(dangling, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := manifests.Load([]string{dangling}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("dangling link: error %v", err)
	}
	if _, _, err := manifests.Load([]string{"-"}, failingReader{}); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("standard input: error %v", err)
	}
	if _, _, err := manifests.Load([]string{"-"}, strings.NewReader("[")); err == nil || !strings.Contains(err.Error(), "-: document 1: ") {
		t.Errorf("broken standard input: error %v", err)
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, fs.ErrClosed }
