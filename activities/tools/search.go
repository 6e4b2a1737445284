package tools

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

func (f *Files) search(ctx context.Context, a arguments) (string, error) {
	name, err := inside(cmp.Or(a.Path, "."))
	if err != nil {
		return "", err
	}
	pattern, err := parseGlob(a.Glob)
	if err != nil {
		return "", err
	}
	const longest = 1000
	if a.Pattern == "" || len(a.Pattern) > longest {
		return "", refuse("the pattern must have 1 to %d characters", longest)
	}
	expression, err := regexp.Compile(a.Pattern)
	if err != nil {
		return "", refuse("the pattern is not RE2: %v; escape what is meant literally", err)
	}
	info, err := f.root.Stat(name)
	if err != nil {
		return "", explain(name, err)
	}
	s := search{files: f, expression: expression}
	if info.IsDir() {
		err = s.tree(ctx, name, pattern)
	} else {
		err = s.file(name)
	}
	if err != nil {
		return "", err
	}
	return s.report(name), nil
}

// search collects matching lines.
type search struct {
	files      *Files
	expression *regexp.Regexp

	out     strings.Builder
	matches int
	read    int64 // bytes read so far
	full    bool  // there are more matches than may be shown
	partial bool  // not every file was looked at
}

// tree searches the files below a directory that can be searched.
func (s *search) tree(ctx context.Context, name string, pattern glob) error {
	found, complete, err := s.files.walk(ctx, name, pattern)
	if err != nil {
		return err
	}
	s.partial = !complete
	for _, e := range found {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case s.full:
			return nil
		case s.read >= maxBytes:
			s.partial = true
			return nil
		case !e.info.Mode().IsRegular():
			continue
		}
		var refused refusal
		if err := s.file(e.path); err != nil && !errors.As(err, &refused) {
			return err
		}
	}
	return nil
}

func (s *search) file(name string) error {
	file, info, err := s.files.open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	limited := &io.LimitedReader{R: file, N: maxBytes - s.read}
	defer func() { s.read = maxBytes - limited.N }()
	in := bufio.NewReaderSize(limited, 64<<10)
	if head, _ := in.Peek(8 << 10); isBinary(head) {
		return refuse("%s is a binary file of %s; only text can be searched", quote(name), size(info.Size()))
	}
	for number := 1; ; number++ {
		line, _, err := readLine(in)
		if errors.Is(err, io.EOF) {
			s.partial = s.partial || limited.N <= 0
			return nil
		}
		if err != nil {
			return explain(name, err)
		}
		if line = strings.TrimRight(line, "\r\n"); s.expression.MatchString(line) && !s.add(name, number, line) {
			return nil
		}
	}
}

// add reports whether there was room for the match.
func (s *search) add(name string, number int, line string) bool {
	const most = 300
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + "…"
	}
	text := fmt.Sprintf("%s:%d: %s\n", printable(name), number, line)
	if s.matches == maxMatches || s.out.Len()+len(text) > maxOutput {
		s.full = true
		return false
	}
	s.matches++
	s.out.WriteString(text)
	return true
}

func (s *search) report(name string) string {
	switch {
	case s.full:
		fmt.Fprintf(&s.out, "[%d matches shown, there are more; narrow the pattern, the path or the glob]\n", s.matches)
	case s.partial:
		s.out.WriteString("[too much to search; this is what was found until then: narrow the path or the glob]\n")
	case s.matches == 0:
		return fmt.Sprintf("[no matches in %s]", quote(name))
	}
	return s.out.String()
}
