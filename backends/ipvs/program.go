package ipvs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/internal/nftgen"
	"github.com/vipkit/vipkit/backends/internal/process"
)

const (
	// nftTimeout is how long one run of nft may take: it reads and writes whole tables here.
	nftTimeout = time.Minute

	// nftOutput is how much of it is read: more than a table of a million elements.
	nftOutput = 1 << 28
)

// A table is the table of nftables.
type table interface {
	NewTransaction() *knftables.Transaction
	Run(ctx context.Context, tx *knftables.Transaction) error

	// read reads all of the table.
	read(ctx context.Context) (contents, error)
}

// An nftTable is a table that the program writes and reads. A run that
// does not end is killed together with its children, and what it says is bounded.
type nftTable struct {
	knftables.Interface

	name       string
	program    string                 // a path, or a name to look for in PATH
	generation func() (uint32, error) // of nftables
}

// openNFT looks whether there is an nft that can be used.
func openNFT(ctx context.Context, name string) (nftTable, error) {
	t := nftTable{name: name, program: "nft", generation: nftgen.Read}
	_, err := process.Command{Path: t.program, Args: []string{"--version"}, Timeout: nftTimeout}.Run(ctx)
	if process.Broke(err) && !process.Missing(err) {
		return t, err // no file descriptors left, for instance: it may be there
	}
	if err == nil {
		t.Interface, err = knftables.New(knftables.InetFamily, name)
	}
	if err != nil {
		return t, &backends.UnsupportedError{Feature: "a usable nft program", Minimum: "nft 1.0.1", Err: err}
	}
	return t, nil
}

// errNothingWritten is the error of an nft that says it has written and has not.
var errNothingWritten = errors.New("nft ended without an error and has written nothing")

// Run writes a transaction. A program that was killed leaves open whether it wrote.
func (t nftTable) Run(ctx context.Context, tx *knftables.Transaction) error {
	text := tx.String()
	// An object that knftables found invalid ends the text with this line.
	if _, invalid, ok := strings.Cut("\n"+text, "\n# ERROR: "); ok {
		return errors.New(invalid)
	}
	before, unread := t.generation()
	_, err := process.Command{Path: t.program, Args: []string{"-f", "-"}, Input: []byte(text), Timeout: nftTimeout, Grace: process.Grace}.Run(ctx)
	if err != nil || unread != nil || tx.NumOperations() == 0 {
		return err
	}
	if after, err := t.generation(); err == nil && after == before {
		return errNothingWritten
	}
	return nil
}

// read reads all of the table.
func (t nftTable) read(ctx context.Context) (contents, error) {
	c := process.Command{Path: t.program, Args: []string{"-j", "list", "table", "inet", t.name}, Timeout: nftTimeout, Output: nftOutput}
	text, err := c.Run(ctx)
	var failed *process.Error
	if errors.As(err, &failed) && failed.Refused && bytes.Contains(failed.Said, []byte("No such file or directory")) {
		return contents{}, nil
	}
	if err != nil {
		return contents{}, err
	}
	return parseTable(text)
}

// parseTable reads what nft says of a table in JSON (libnftables-json(5)).
func parseTable(text string) (contents, error) {
	type box struct {
		Name string
		Elem []any
	}
	var list struct {
		Nftables []struct {
			Set, Map    *box
			Chain, Rule *struct{ Name, Chain string }
		}
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return contents{}, fmt.Errorf("read what nft lists: %w", err)
	}
	out := contents{chains: make(map[string]int)}
	for _, o := range list.Nftables {
		switch {
		case o.Set != nil:
			for _, e := range o.Set.Elem {
				out.elements = append(out.elements, element{cell: cell{o.Set.Name, listed(e)}})
			}
		case o.Map != nil:
			for _, e := range o.Map.Elem {
				if pair, ok := e.([]any); ok && len(pair) == 2 {
					out.elements = append(out.elements, element{cell{o.Map.Name, listed(pair[0])}, listed(pair[1])})
				}
			}
		case o.Chain != nil:
			out.chains[o.Chain.Name] += 0
		case o.Rule != nil:
			out.chains[o.Rule.Chain]++
		}
	}
	return out, nil
}

// listed returns a value of an element as it is written. Of numbers only marks are greater than a port.
func listed(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		if v > math.MaxUint16 {
			return hex(uint32(v))
		}
		return strconv.Itoa(int(v))
	case map[string]any:
		for kind, of := range v {
			return listedAs(kind, of)
		}
	}
	return ""
}

func listedAs(kind string, v any) string {
	of, _ := v.(map[string]any)
	switch kind {
	case "prefix":
		return listed(of["addr"]) + "/" + listed(of["len"])
	case "concat":
		list, _ := v.([]any)
		words := make([]string, len(list))
		for i := range list {
			words[i] = listed(list[i])
		}
		return strings.Join(words, " . ")
	case "elem":
		return listed(of["val"])
	case "goto":
		return kind + " " + listed(of["target"])
	}
	return kind
}
