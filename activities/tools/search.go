package tools

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"conclave/engine/text"
)

func (f *fileTools) searchFiles(ctx context.Context, a arguments) (string, error) {
	const maxPattern = 1000
	if a.Pattern == "" || len(a.Pattern) > maxPattern {
		return "", refuse("the pattern must have 1 to %d characters", maxPattern)
	}
	expression, err := regexp.Compile(a.Pattern)
	if err != nil {
		return "", refuse("the pattern is not RE2: %v; escape literal characters", err)
	}
	name, pattern, info, err := f.resolveScope(a)
	if err != nil {
		return "", err
	}
	s := search{files: f, expression: expression}
	if info.IsDir() {
		err = s.searchTree(ctx, name, pattern)
	} else {
		err = s.searchFile(name)
	}
	if err != nil {
		return "", err
	}
	return s.reportMatches(name), nil
}

type search struct {
	files      *fileTools
	expression *regexp.Regexp

	out     strings.Builder
	matches int
	read    int64 // bytes read so far
	full    bool  // there are more matches than can be shown
	partial bool  // some files were not searched
}

func (s *search) searchTree(ctx context.Context, name, pattern string) error {
	found, complete, err := s.files.walkTree(ctx, name, pattern)
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
		err := s.searchFile(e.path)
		if _, refused := errors.AsType[refusal](err); err != nil && !refused {
			return err
		}
	}
	return nil
}

func (s *search) searchFile(name string) error {
	file, info, err := s.files.openRegular(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	limited := &io.LimitedReader{R: file, N: maxBytes - s.read}
	defer func() { s.read = maxBytes - limited.N }()
	in := bufio.NewReaderSize(limited, 64<<10)
	if head, _ := in.Peek(8 << 10); isBinary(head) {
		return refuse("%s is a binary file of %s; only text can be searched", quote(name), text.Size(info.Size()))
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
		if line = strings.TrimRight(line, "\r\n"); s.expression.MatchString(line) && !s.addMatch(name, number, line) {
			return nil
		}
	}
}

// maxShown bounds the part of a matching line that is shown, in bytes.
const maxShown = 303

func (s *search) addMatch(name string, number int, line string) bool {
	line = text.Truncate(line, maxShown)
	match := fmt.Sprintf("%s:%d: %s\n", printable(name), number, line)
	if s.matches == maxMatches || s.out.Len()+len(match) > maxOutput {
		s.full = true
		return false
	}
	s.matches++
	s.out.WriteString(match)
	return true
}

func (s *search) reportMatches(name string) string {
	switch {
	case s.full:
		fmt.Fprintf(&s.out, "[%d matches shown, there are more; narrow the pattern, the path or the glob]\n", s.matches)
	case s.partial:
		s.out.WriteString("[too much to search; these are the matches found so far: narrow the path or the glob]\n")
	case s.matches == 0:
		return fmt.Sprintf("[no matches in %s]", quote(name))
	}
	return s.out.String()
}
