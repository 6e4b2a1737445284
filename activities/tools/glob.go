package tools

import (
	"path"
	"strings"
)

// glob matches slash-separated paths. In its pattern ** stands for any number
// of directories, none included; other segments are as in path.Match. A pattern
// without a slash matches names at any depth.
type glob []string

func parseGlob(pattern string) (glob, error) {
	if pattern == "" {
		return nil, nil
	}
	clean := strings.TrimPrefix(pattern, "./")
	if !strings.Contains(clean, "/") {
		clean = "**/" + clean
	}
	g := glob(strings.Split(clean, "/"))
	for _, segment := range g {
		if _, err := path.Match(segment, ""); err != nil || segment == "" || segment == ".." {
			return nil, refuse("glob %s is not a pattern; give one such as *.go or src/**/*.md, relative to path", quote(pattern))
		}
	}
	return g, nil
}

// matches reports whether the glob matches a path. The nil glob matches all.
//
// A ** that fits tries its shortest match first and is only tried again from
// the last one, so that the work is bounded by the product of both lengths.
func (g glob) matches(name string) bool {
	if g == nil {
		return true
	}
	segments := strings.Split(name, "/")
	star, mark, i, j := -1, 0, 0, 0
	for j < len(segments) {
		switch {
		case i < len(g) && g[i] == "**":
			star, mark = i, j
			i++
		case i < len(g) && segmentMatches(g[i], segments[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(g) && g[i] == "**" {
		i++
	}
	return i == len(g)
}

func segmentMatches(pattern, segment string) bool {
	ok, err := path.Match(pattern, segment)
	return ok && err == nil
}
