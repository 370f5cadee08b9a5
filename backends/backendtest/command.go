package backendtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"
)

// stopTime is how long a program may take to end, or to clean up.
const stopTime = 20 * time.Second

// A Command is a [Proxy] that is a program, which is run with [Config.Asynchronous]. It finds in
// its environment
//
//	OBJECTS               a folder with the file objects.yaml: all Services and EndpointSlices. The file is
//	                      replaced, by renaming, whenever they change
//	NODE_NAME, NODE_ZONE  of the Node; NODE_IPS its addresses, with commas
//	POD_CIDRS             ranges of this node's pods, POD_INTERFACES their interfaces ("veth-*"); one of them
//	                      or none is set
//	SERVICE_CIDRS, NODEPORT_ADDRESSES  with commas
//	MASQUERADE_ALL, DENY_INVALID_RANGES  "true" or "false"
//
// and is started anew if any but the objects changes. It gets SIGTERM when it shall end.
type Command struct {
	// Run is the program as a line of sh, which is run by exec. CleanUp is a line that
	// removes everything.
	Run, CleanUp string

	// Dir is a folder for the objects, which must exist.
	Dir string

	// Log gets what the programs print; nil: nothing does.
	Log io.Writer

	settings Settings
	process  *exec.Cmd
	ended    chan error
}

// Set writes the objects, and starts the program if it does not run with these settings.
func (c *Command) Set(ctx context.Context, s State) error {
	if err := c.write(s); err != nil {
		return err
	}
	if c.process != nil && c.settings.Equal(s.Settings) {
		select {
		case err := <-c.ended:
			c.process = nil
			if err == nil {
				return errors.New("the program ended by itself with status 0")
			}
			return fmt.Errorf("the program ended by itself: %w", err)
		default:
			return nil
		}
	}
	if err := c.Stop(ctx); err != nil {
		return err
	}
	c.settings = s.Settings
	return c.start()
}

// write puts all objects into one file of several documents, in one step.
func (c *Command) write(s State) error {
	var b strings.Builder
	add := func(apiVersion, kind string, object any) error {
		text, err := yaml.Marshal(object)
		fmt.Fprintf(&b, "---\napiVersion: %s\nkind: %s\n%s", apiVersion, kind, text)
		return err
	}
	for _, svc := range s.Services {
		if err := add("v1", "Service", svc); err != nil {
			return err
		}
	}
	for _, slice := range s.EndpointSlices {
		if err := add("discovery.k8s.io/v1", "EndpointSlice", slice); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.objects(), 0o755); err != nil {
		return err
	}
	next := filepath.Join(c.Dir, "next.yaml")
	if err := os.WriteFile(next, []byte(b.String()), 0o644); err != nil { //nolint:gosec // no secrets
		return err
	}
	return os.Rename(next, filepath.Join(c.objects(), "objects.yaml"))
}

func (c *Command) objects() string { return filepath.Join(c.Dir, "objects") }

// start runs the program in the namespace of the calling thread. It outlives the calls of Set, so it
// is not bound to a context of theirs: Stop ends it.
func (c *Command) start() error {
	cmd := exec.Command("sh", "-c", "exec "+c.Run) //nolint:noctx // see above
	cmd.Env, cmd.Stdout, cmd.Stderr = c.environment(), c.Log, c.Log
	cmd.WaitDelay = stopTime
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the program, which Stop ends
	c.process, c.ended = cmd, ended
	return nil
}

func (c *Command) environment() []string {
	s := c.settings
	return append(os.Environ(),
		"OBJECTS="+c.objects(), "NODE_NAME="+s.NodeName, "NODE_ZONE="+s.Zone,
		"NODE_IPS="+commas(s.Addresses), "POD_CIDRS="+commas(s.PodCIDRs), "POD_INTERFACES="+strings.Join(s.PodInterfaces, ","),
		"SERVICE_CIDRS="+commas(s.ServiceCIDRs), "NODEPORT_ADDRESSES="+strings.Join(s.NodePortAddresses, ","),
		fmt.Sprintf("MASQUERADE_ALL=%t", s.MasqueradeAll), fmt.Sprintf("DENY_INVALID_RANGES=%t", s.DenyInvalidRanges))
}

func commas[T fmt.Stringer](list []T) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = v.String()
	}
	return strings.Join(texts, ",")
}

// Stop sends SIGTERM, and kills the program if that does not end it in 20 seconds, which is an
// error.
func (c *Command) Stop(ctx context.Context) error {
	if c.process == nil {
		return nil
	}
	p := c.process
	c.process = nil
	if err := p.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		err := p.Process.Kill()
		<-c.ended // WaitDelay bounds it
		return errors.Join(fmt.Errorf("the program did not end in %v", stopTime), err)
	}
}

// Cleanup runs CleanUp.
func (c *Command) Cleanup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+c.CleanUp)
	cmd.Env, cmd.Stdout, cmd.Stderr = c.environment(), c.Log, c.Log
	cmd.WaitDelay = stopTime
	return cmd.Run()
}
