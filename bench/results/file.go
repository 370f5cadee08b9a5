package results

import (
	"encoding/json"
	"fmt"
	"os"
)

// Read reads a run from a file in JSON.
func Read(name string) (*Run, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := &Run{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("results: read %s: %w", name, err)
	}
	return r, nil
}

// Write writes a run to a file in JSON.
func (r *Run) Write(name string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(data, '\n'), 0o644)
}

// Merge adds the cases of another run.
func (r *Run) Merge(o *Run) {
	for _, c := range o.Cases {
		for proxy, values := range c.Runs {
			for _, v := range values {
				r.Add(c.ID, proxy, v)
			}
		}
	}
}
