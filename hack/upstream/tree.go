package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Upstream is the module whose tests run.
const upstreamModule = "k8s.io/kubernetes"

// copied are the folders of the module that the packages under test need.
func copied() []string { return []string{"pkg", "test/utils", "third_party"} }

// A tree is a copy of upstream's module with our hooks and adapters in it, beside a go.mod
// that leads to it.
type tree struct {
	source  string // the module in the module cache
	version string
	dir     string // the copy
	modfile string
}

// makeTree makes the copy in the folder cache, or brings the one that is there up to date: files
// that do not change keep their time, so nothing is compiled again.
func makeTree(ctx context.Context, module, cache string) (*tree, error) {
	t, err := findUpstream(ctx, module)
	if err != nil {
		return nil, err
	}
	t.dir = filepath.Join(cache, "kubernetes@"+t.version)
	t.modfile = filepath.Join(cache, "go.mod")
	if err := t.copy(); err != nil {
		return nil, fmt.Errorf("copy %s: %w", t.source, err)
	}
	if err := t.hook(); err != nil {
		return nil, fmt.Errorf("hook into %s %s: %w", upstreamModule, t.version, err)
	}
	if err := t.adapt(filepath.Join(module, "_overlay")); err != nil {
		return nil, fmt.Errorf("add the adapters: %w", err)
	}
	if err := t.writeModfile(ctx, module); err != nil {
		return nil, fmt.Errorf("write %s: %w", t.modfile, err)
	}
	return t, nil
}

// findUpstream asks the go command, which downloads the module if it has to.
func findUpstream(ctx context.Context, module string) (*tree, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", upstreamModule)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("download %s: %w: %s", upstreamModule, err, bytes.TrimSpace(out))
	}
	cmd = exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", upstreamModule)
	cmd.Dir = module
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", upstreamModule, err)
	}
	dir, version, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	return &tree{source: dir, version: version}, nil
}

// copy makes the copy unless it is there. It is renamed into place, so it is whole.
func (t *tree) copy() error {
	if _, err := os.Stat(t.dir); err == nil {
		return nil
	}
	part := t.dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	for _, folder := range copied() {
		if err := os.CopyFS(filepath.Join(part, folder), os.DirFS(filepath.Join(t.source, folder))); err != nil {
			return err
		}
	}
	if err := t.replace(filepath.Join(t.source, "go.mod"), filepath.Join(part, "go.mod")); err != nil {
		return err
	}
	return os.Rename(part, t.dir)
}

func (t *tree) replace(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return write(to, content)
}

// hook applies all hooks to the module's own files. The copy's are never read.
func (t *tree) hook() error {
	var errs []error
	for _, h := range hooks() {
		content, err := os.ReadFile(filepath.Join(t.source, h.file))
		if err == nil {
			content, err = h.apply(content)
		}
		if err == nil {
			err = write(filepath.Join(t.dir, h.file), content)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// adapt puts our adapters into the copy, and removes those of an earlier run that are gone.
func (t *tree) adapt(from string) error {
	ours := map[string]bool{}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		ours[name] = true
		return t.replace(path, filepath.Join(t.dir, name))
	})
	if err != nil {
		return err
	}
	return filepath.WalkDir(t.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(d.Name(), "vipkit_") {
			return err
		}
		name, err := filepath.Rel(t.dir, path)
		if err != nil || ours[name] {
			return err
		}
		return os.Remove(path)
	})
}

// writeModfile makes a go.mod beside the copy that is our own, but leads to the copy.
func (t *tree) writeModfile(ctx context.Context, module string) error {
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := t.replace(filepath.Join(module, name), filepath.Join(filepath.Dir(t.modfile), name)); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "edit", "-replace="+upstreamModule+"="+t.dir, t.modfile)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// write writes the file unless it has that content.
func write(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
