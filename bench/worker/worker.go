// Package worker runs parts of the benchmark in processes of their own, each in a new
// network namespace, so that memory, processor time and rules are those of one proxy.
package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/vipkit/vipkit/bench/results"
)

// Command is the first argument by which the program knows that it is a worker. The
// second is a Spec in JSON.
const Command = "worker"

// A Spec says what a worker is for.
type Spec struct {
	Part      string `json:"part"` // results.Control or results.Traffic
	Proxy     string `json:"proxy"`
	Plane     string `json:"plane"`
	Services  int    `json:"services"`
	Endpoints int    `json:"endpoints"` // of each Service
	Profile   string `json:"profile"`   // folder for profiles of the first sync, "" for none
}

// A Worker is the parent's side of such a process.
type Worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	enc *json.Encoder
	dec *json.Decoder
}

// answer is what a worker says to a step.
type answer struct {
	Values results.Values `json:"values"`
	Error  string         `json:"error"`
}

// Start runs the program again as a worker. It needs the right to make a network
// namespace: root, or root of a user namespace.
func Start(spec Spec) (*Worker, error) {
	arg, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, Command, string(arg))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("worker: start: %w", err)
	}
	return &Worker{cmd: cmd, in: in, enc: json.NewEncoder(in), dec: json.NewDecoder(out)}, nil
}

// Run makes the worker run a step.
func (w *Worker) Run(step string) (results.Values, error) {
	if err := w.enc.Encode(step); err != nil {
		return nil, fmt.Errorf("worker: %s: %w", step, err)
	}
	var a answer
	if err := w.dec.Decode(&a); err != nil {
		return nil, fmt.Errorf("worker: %s: no answer: %w", step, err)
	}
	if a.Error != "" {
		return nil, fmt.Errorf("worker: %s: %s", step, a.Error)
	}
	return a.Values, nil
}

// Close ends the worker, and with it the namespace and all rules.
func (w *Worker) Close() error { return errors.Join(w.in.Close(), w.cmd.Wait()) }

// Serve is the worker's side: it runs the steps that it reads until there are no more.
func Serve(run func(step string) (results.Values, error), in io.Reader, out io.Writer) error {
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var step string
		if err := dec.Decode(&step); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var a answer
		var err error
		if a.Values, err = run(step); err != nil {
			a.Error = err.Error()
		}
		if err := enc.Encode(a); err != nil {
			return err
		}
	}
}
