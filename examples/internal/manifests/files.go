package manifests

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
		return os.ReadFile(name)
	}
	data, err := io.ReadAll(stdin)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", Stdin, err)
	}
	return data, nil
}
