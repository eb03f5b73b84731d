package proc

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Shell is the program that runs shell text.
const Shell = "/bin/sh"

// maxArg is the longest text given to the shell as one argument. Linux takes
// 128 KiB less the final NUL (execve(2), MAX_ARG_STRLEN).
const maxArg = 120 << 10

// shellArgv returns the arguments that have Shell run text. A text too long for
// one argument comes in several, which the shell puts together: no file and no
// descriptor is needed. The text does not see them: eval has expanded them when
// it clears them.
func shellArgv(text string) []string {
	if len(text) <= maxArg {
		return []string{"sh", "-c", "--", text} // it may begin with a dash
	}
	parts := split(text, maxArg)
	var eval strings.Builder
	eval.WriteString(`eval "set --;`)
	for i := range parts {
		eval.WriteString("${" + strconv.Itoa(i+1) + "}")
	}
	eval.WriteString(`"`)
	return append([]string{"sh", "-c", eval.String(), "sh"}, parts...)
}

// split cuts text into pieces of at most size bytes, between characters: some
// shells decode each argument by itself.
func split(text string, size int) []string {
	var parts []string
	for len(text) > size {
		n := size
		for n > size-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		parts = append(parts, text[:n])
		text = text[n:]
	}
	return append(parts, text)
}
