package text_test

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/sandbox-go/sandbox/internal/text"
)

func TestString(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"ascii", "a\x00b", "a\x00b"},
		{"whole", "aé€😀", "aé€😀"},
		{"lone-continuation", "a\x80\x80b", "a\uFFFD\uFFFDb"},
		{"unfinished-at-end", "a\xe2\x82", "a\uFFFD"},
		{"unfinished-before-letter", "\xe2\x82a", "\uFFFDa"},
		{"unfinished-four", "\xf0\x9f\x98a", "\uFFFDa"},
		{"surrogate", "\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},
		{"overlong", "\xc0\xaf", "\uFFFD\uFFFD"},
		{"unicode-standard-table-3-11", "a\xf1\x80\x80\xe1\x80\xc2b\x80c\x80\xbfd", "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd"},
		{"replacement-itself", "\uFFFD", "\uFFFD"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := text.String([]byte(tt.in)); got != tt.want {
				t.Errorf("String(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestWhole(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want int
	}{
		{"", 0}, {"a", 1}, {"€", 3}, {"a\xe2", 1}, {"a\xe2\x82", 1}, {"a\x80", 2},
		{"\xf0\x9f\x98", 0}, {"\xff", 1}, {"\xed\xa0", 2}, {"\x80\x80\x80\x80", 4},
	} {
		if got := text.Whole([]byte(tt.in)); got != tt.want {
			t.Errorf("Whole(%q) = %d, want %d", tt.in, got, tt.want)
		}
	}
}

func TestDecoderHoldsAnUnfinishedCharacter(t *testing.T) {
	var d text.Decoder
	if got := d.Decode([]byte("\xe2")); got != "" || d.Held() != 1 {
		t.Errorf("first byte gave %q, held %d", got, d.Held())
	}
	if got := d.Decode([]byte("\x82\xac!")); got != "€!" {
		t.Errorf("the rest gave %q, want €!", got)
	}
	if got := d.Flush(); got != "" {
		t.Errorf("Flush = %q, want nothing", got)
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte("a€\xf0\x9f\x98\x80\xff"), uint8(1))
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		var d text.Decoder
		var got []byte
		for rest := in; len(rest) > 0; {
			n := min(int(size)+1, len(rest))
			piece := d.Decode(rest[:n])
			if !utf8.ValidString(piece) {
				t.Fatalf("piece %q is not UTF-8", piece)
			}
			got = append(got, piece...)
			rest = rest[n:]
		}
		got = append(got, d.Flush()...)
		want := text.String(in)
		if string(got) != want {
			t.Fatalf("pieces make %q, String makes %q", got, want)
		}
		if utf8.Valid(in) && !bytes.Equal(in, got) {
			t.Fatalf("valid text %q became %q", in, got)
		}
	})
}
