package manifests

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// Files lists the files that path stands for: the *.yaml, *.yml and *.json files of
// a folder by name, without its sub-folders; otherwise path itself, whatever its
// name. Like a shell's pattern it leaves out names that begin with a dot: editors
// put unfinished copies there.
func Files(path string) ([]string, error) {
	if path == Stdin {
		return []string{Stdin}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		name := filepath.Join(path, e.Name())
		if isManifest(e.Name()) && !isFolder(name) {
			files = append(files, name)
		}
	}
	return files, nil
}

func isManifest(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// isFolder follows links: the files of a mounted ConfigMap are links.
func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func read(name string, stdin io.Reader) ([]byte, error) {
	if name != Stdin {
		return ReadFile(name)
	}
	data, err := readAll(stdin)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", Stdin, err)
	}
	return data, nil
}

// MaxSize is how many bytes a file may have: some 80,000 objects.
const MaxSize = 128 << 20

// readTimeout bounds the reading of a file that is regular by name only: some of
// the kernel's wait for something to tell.
const readTimeout = 10 * time.Second

var (
	// ErrNotRegular is a pipe, a device, a socket or a folder, which could be read for ever.
	ErrNotRegular = errors.New("not a regular file")

	// ErrTooLarge is a file of more than MaxSize bytes.
	ErrTooLarge = fmt.Errorf("more than %d bytes", MaxSize)
)

// ReadFile reads a file like os.ReadFile, and follows links. It refuses what is not a regular file and
// what is too large, so that it neither waits nor fills the memory. Errors name the file.
func ReadFile(name string) ([]byte, error) {
	// A device may do something when it is opened, so ask before.
	info, err := os.Stat(name)
	if err == nil {
		err = check(name, info)
	}
	if err != nil {
		return nil, err
	}
	// If the name has become a pipe since, do not wait for somebody who writes to it.
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if info, err = file.Stat(); err == nil {
		err = check(name, info)
	}
	if err != nil {
		return nil, err
	}
	_ = file.SetReadDeadline(time.Now().Add(readTimeout)) // an error: it never waits
	data, err := readAll(file)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data, nil
}

func check(name string, info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "read", Path: name, Err: ErrNotRegular}
	case info.Size() > MaxSize:
		return &fs.PathError{Op: "read", Path: name, Err: ErrTooLarge}
	default:
		return nil
	}
}

// readAll reads at most MaxSize bytes.
func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err == nil && len(data) > MaxSize {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}
