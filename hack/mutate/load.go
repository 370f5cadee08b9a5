package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A source is a package with types, as the compiler sees it on this machine.
type source struct {
	dir   string // relative to the module, with slashes
	files []*file
	types *types.Package
	info  *types.Info
	fset  *token.FileSet
}

// A file is one of a package, without tests.
type file struct {
	path string // absolute
	rel  string // relative to the module
	text []byte
	tree *ast.File
}

// listed is what go list says about a package.
type listed struct {
	ImportPath, Dir, Export, Name string
	GoFiles                       []string
}

// load reads packages of the module in the working directory. Their imports come from the
// compiler's export data, so that all costs little more than a build.
func load(ctx context.Context, dirs []string) ([]*source, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	all, err := list(ctx, dirs)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(all[path].Export)
	})
	var out []*source
	for _, dir := range dirs {
		found, ok := byDir(all, filepath.Join(root, dir))
		if !ok {
			return nil, fmt.Errorf("no package in %s", dir)
		}
		s := &source{dir: dir, fset: fset}
		if err = s.read(root, found); err != nil {
			return nil, err
		}
		if err = s.check(found.ImportPath, imports); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func byDir(all map[string]listed, dir string) (listed, bool) {
	for _, l := range all {
		if l.Dir == dir {
			return l, true
		}
	}
	return listed{}, false
}

// list returns packages and all that they import, by path.
func list(ctx context.Context, dirs []string) (map[string]listed, error) {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,Name,GoFiles"}
	for _, d := range dirs {
		args = append(args, "./"+d)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("go list: %w", err)
	}
	all := map[string]listed{}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var l listed
		if err = d.Decode(&l); err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all[l.ImportPath] = l
	}
	return all, nil
}

func (s *source) read(root string, l listed) error {
	for _, name := range l.GoFiles {
		f := &file{path: filepath.Join(l.Dir, name)}
		rel, err := filepath.Rel(root, f.path)
		if err != nil {
			return err
		}
		f.rel = filepath.ToSlash(rel)
		if f.text, err = os.ReadFile(f.path); err != nil {
			return err
		}
		if f.tree, err = parser.ParseFile(s.fset, f.path, f.text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return err
		}
		s.files = append(s.files, f)
	}
	return nil
}

func (s *source) check(path string, imports types.Importer) error {
	s.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Uses:  map[*ast.Ident]types.Object{},
	}
	conf := types.Config{Importer: imports}
	trees := make([]*ast.File, len(s.files))
	for i, f := range s.files {
		trees[i] = f.tree
	}
	pkg, err := conf.Check(path, s.fset, trees, s.info)
	if err != nil {
		return fmt.Errorf("types of %s: %w", path, err)
	}
	s.types = pkg
	return nil
}
