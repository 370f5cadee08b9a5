package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/vipkit/vipkit/examples/internal/nodeflags"
)

// Defaults that differ from kube-proxy's or that it has no flag for.
const (
	// defaultMinSync is less than kube-proxy's second, as a round costs
	// what changed and not what exists.
	defaultMinSync   = 100 * time.Millisecond
	defaultFullSync  = time.Hour // kube-proxy's
	defaultCheck     = 30 * time.Second
	defaultTableName = "vipkit"
)

// options are the values of the flags.
type options struct {
	node    *nodeflags.Flags
	name    string // of the node
	backend string
	table   string

	source  sourceFlag
	once    bool
	cleanup bool

	initOnly bool
	tuner    tunerFlags

	healthzAddress, metricsAddress string
	minSync, fullSync, check       time.Duration
}

// A sourceFlag says where objects come from: exactly one of the two.
type sourceFlag struct {
	dir        string // a folder of manifests
	cluster    bool
	kubeconfig string // "" in a cluster: the service account's
}

// synopsis is the first line of the help.
const synopsis = "usage: agent -node-name NAME (-source dir=PATH | -source kubeconfig[=PATH]) [flags]"

var errNoName = errors.New("-node-name is required")

var errSource = errors.New("must be dir=PATH, kubeconfig or kubeconfig=PATH")

// set reads the value of -source.
func (s *sourceFlag) set(value string) error {
	kind, path, given := strings.Cut(value, "=")
	if given && path == "" {
		return errSource
	}
	switch kind {
	case "dir":
		if !given {
			return errSource
		}
		*s = sourceFlag{dir: path}
	case "kubeconfig":
		*s = sourceFlag{cluster: true, kubeconfig: path}
	default:
		return errSource
	}
	return nil
}

// parseFlags returns flag.ErrHelp if help was asked for, which is printed then.
func parseFlags(args []string, usage io.Writer) (options, error) {
	fs := flag.NewFlagSet("agent", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	o := options{node: nodeflags.Register(fs)}
	// Two names for one value: -node is what the examples share, -node-name what
	// a manifest fills from the downward API.
	node := fs.Lookup("node")
	node.Usage = "`name` of the node, as -node-name"
	fs.Var(node.Value, "node-name", "`name` of the node to program (required)")
	fs.StringVar(&o.backend, "backend", backendNFTables, "data plane: `nftables|iptables|ipvs`")
	fs.StringVar(&o.table, "table", defaultTableName, "`name` of the nftables tables; in capitals, prefix of the iptables chains; with -ipvs behind it, of what ipvs makes")
	fs.Func("source", "where objects come from: `dir=PATH|kubeconfig[=PATH]` (required)", o.source.set)
	fs.BoolVar(&o.once, "once", false, "do one round when all sources have delivered, and exit")
	fs.BoolVar(&o.initOnly, "init-only", false, "do what needs more rights than the rest, and exit: see whether the data plane works, and set the kernel as the -conntrack flags and the backend ask for")
	fs.BoolVar(&o.cleanup, "cleanup", false, "remove everything from the data plane, and exit")
	o.tuner.register(fs)
	fs.StringVar(&o.healthzAddress, "healthz-address", "", "`address` to serve /healthz and /livez on; kube-proxy's is 0.0.0.0:10256 (default: nowhere)")
	fs.StringVar(&o.metricsAddress, "metrics-address", "", "`address` to serve /metrics on; kube-proxy's is 127.0.0.1:10249 (default: nowhere)")
	fs.DurationVar(&o.minSync, "min-sync", defaultMinSync, "least time between two rounds")
	fs.DurationVar(&o.fullSync, "full-sync", defaultFullSync, "time between two rounds that look at everything; 0: never")
	fs.DurationVar(&o.check, "check", defaultCheck, "how often to look whether somebody else changed the data plane; 0: never")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			_, _ = fmt.Fprintln(usage, synopsis)
			fs.SetOutput(usage)
			fs.PrintDefaults()
		}
		return options{}, err
	}
	if fs.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	o.name = node.Value.String()
	return o, o.validate()
}

// validate returns the first thing that is wrong or missing.
func (o *options) validate() error {
	if _, err := newBackend(*o, nil); err != nil {
		return fmt.Errorf("-backend, -table: %w", err)
	}
	if err := o.tuner.validate(); err != nil || o.cleanup || o.initOnly {
		return err
	}
	if o.name == "" {
		return errNoName
	}
	if o.minSync < 0 {
		return fmt.Errorf("-min-sync: %v is negative", o.minSync)
	}
	if o.fullSync > 0 && o.fullSync < o.minSync {
		return fmt.Errorf("-full-sync: %v is less than -min-sync %v", o.fullSync, o.minSync)
	}
	if o.source.dir == "" && !o.source.cluster {
		return errors.New("-source is required")
	}
	if o.source.dir != "" {
		return checkFolder(o.source.dir)
	}
	return checkKubeconfig(o.source.kubeconfig)
}

// checkKubeconfig refuses what could be read for ever.
func checkKubeconfig(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return fmt.Errorf("-source: %w", err)
	}
	return nil
}

func checkFolder(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", path)
	}
	if err != nil {
		return fmt.Errorf("-source: %w", err)
	}
	return nil
}

// orNever makes the flags' "0: never" that of package proxy, where zero is the default.
func orNever(d time.Duration) time.Duration {
	if d <= 0 {
		return -1
	}
	return d
}
