package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/vipkit/vipkit/examples/internal/nodeflags"
)

// The values of -o.
const (
	outputText = "text"
	outputJSON = "json"
)

type options struct {
	files   []string
	node    *nodeflags.Flags
	rules   string // backend whose rules to show, "" for none
	packets []packet
	output  string
}

// parseFlags reads the command line. What is wrong with it was already told
// on stderr when it returns.
func parseFlags(args []string, stderr io.Writer) (*options, error) {
	fs := flag.NewFlagSet("explain", flag.ContinueOnError)
	fs.SetOutput(stderr)
	opts := &options{output: outputText}
	fs.Func("f", "`file`, folder or - with Kubernetes objects (required, repeats)", func(s string) error {
		opts.files = append(opts.files, s)
		return nil
	})
	opts.node = nodeflags.Register(fs)
	fs.Func("rules", "show the rules of this `backend` too: nftables, iptables or ipvs", opts.setRules)
	fs.Func("packet", "trace this packet: `SRC,DST:PORT,PROTO[,IFACE]` (repeats)", opts.addPacket)
	fs.Func("o", "output `format`: text (default) or json", opts.setOutput)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if err := opts.check(fs); err != nil {
		tell(stderr, err)
		fs.Usage()
		return nil, err
	}
	return opts, nil
}

func (o *options) check(fs *flag.FlagSet) error {
	switch {
	case fs.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case len(o.files) == 0:
		return errors.New("-f is required")
	default:
		return o.node.Check()
	}
}

func (o *options) setRules(backend string) error {
	switch backend {
	case backendNFTables, backendIPTables, backendIPVS:
		o.rules = backend
		return nil
	default:
		return errors.New("no such backend")
	}
}

func (o *options) addPacket(text string) error {
	p, err := parsePacket(text)
	if err != nil {
		return err
	}
	o.packets = append(o.packets, p)
	return nil
}

func (o *options) setOutput(format string) error {
	if format != outputText && format != outputJSON {
		return errors.New("neither text nor json")
	}
	o.output = format
	return nil
}
