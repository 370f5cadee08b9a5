package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/vipkit/vipkit/backends/fake"
	"github.com/vipkit/vipkit/proxy"
)

func TestNewRejects(t *testing.T) {
	tests := []struct {
		name string
		opts proxy.Options
		want string
	}{
		{"no backend", proxy.Options{}, "Backend is nil"},
		{"J08 full interval less than minimum interval", proxy.Options{
			Backend: &fake.Backend{}, MinInterval: time.Minute, FullInterval: time.Second,
		}, "FullInterval 1s is less than MinInterval 1m0s"},
		{"K23 minimum interval 40 s, full interval 30 s", proxy.Options{
			Backend: &fake.Backend{}, MinInterval: 40 * time.Second, FullInterval: 30 * time.Second,
		}, "FullInterval 30s is less than MinInterval 40s"},
		{"J08 backoff bounds the wrong way round", proxy.Options{
			Backend: &fake.Backend{}, MinBackoff: time.Minute, MaxBackoff: time.Second,
		}, "MaxBackoff 1s is less than MinBackoff 1m0s"},
		{"negative interval", proxy.Options{Backend: &fake.Backend{}, MinInterval: -1}, "MinInterval -1ns is negative"},
		{"negative backoff", proxy.Options{Backend: &fake.Backend{}, MinBackoff: -1, MaxBackoff: -1}, "negative"},
		{"consumer without a name", proxy.Options{
			Backend: &fake.Backend{}, Consumers: []proxy.Consumer{{Syncer: &fake.Backend{}}},
		}, "Consumers[0]"},
		{"consumer without a Syncer", proxy.Options{
			Backend: &fake.Backend{}, Consumers: []proxy.Consumer{{Name: "a"}},
		}, "Consumers[0]"},
		{"gate without a name", proxy.Options{Backend: &fake.Backend{}, Gates: []string{"a", ""}}, "Gates[1]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := proxy.New(tt.opts)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "proxy: options: ") {
				t.Errorf("New = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestNewNamesEverything(t *testing.T) {
	_, err := proxy.New(proxy.Options{MinInterval: -1, Gates: []string{""}})
	if err == nil || strings.Count(err.Error(), "proxy: options: ") != 3 {
		t.Errorf("New = %v, want three errors", err)
	}
}

func TestNewAccepts(t *testing.T) {
	for _, opts := range []proxy.Options{
		{},
		{MinInterval: 2 * time.Hour},
		{MaxBackoff: time.Millisecond},
		{MinBackoff: time.Hour},
		{FullInterval: -1, CheckInterval: -1, MinInterval: time.Hour},
	} {
		opts.Backend = &fake.Backend{}
		if _, err := proxy.New(opts); err != nil {
			t.Errorf("New(%+v) = %v", opts, err)
		}
	}
}
