package sections_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipkit/vipkit/internal/sections"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, text string
		want       sections.File
	}{
		{"nothing", "", sections.File{}},
		{"only text", "a\nb", sections.File{About: "a\nb\n"}},
		{"sections", "about\n\n-- one --\n1\n2\n-- two words --\n-- one --\nlast", sections.File{
			About:    "about\n\n",
			Sections: []sections.Section{{"one", "1\n2\n"}, {"two words", ""}, {"one", "last\n"}},
		}},
		{"no text before", "-- a --\nx\n", sections.File{Sections: []sections.Section{{"a", "x\n"}}}},
		{"no markers", " -- a --\n-- a -- b\n--a--\n--  --\n-- --\n---\n-- a\n", sections.File{About: " -- a --\n-- a -- b\n--a--\n--  --\n-- --\n---\n-- a\n"}},
		{"CR LF", "-- a --\r\nx\r\n", sections.File{Sections: []sections.Section{{"a", "x\r\n"}}}},
	}
	for _, tt := range tests {
		t.Run("fault F36 "+tt.name, func(t *testing.T) {
			f := sections.Parse(tt.text)
			if diff := cmp.Diff(tt.want, f); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(f, sections.Parse(f.String())); diff != "" {
				t.Errorf("written and read again (-want +got):\n%s", diff)
			}
		})
	}
}
