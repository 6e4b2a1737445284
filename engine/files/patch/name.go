package patch

import (
	"fmt"
	"os"
	"path"
	"strings"
	"unicode/utf8"
)

// NameError reports a change of a file with a reserved name.
type NameError struct{ Path, Problem string }

func (e *NameError) Error() string { return Quote(e.Path) + " is refused: " + e.Problem }

// Reserved returns why no tree that agents make may have a file at a path, or "" if it may. A link has a
// target. The rule is that of git for its index, on every file system: no element of a path is a name of
// .git, with elements ended by back-slashes, too, and no link replaces .gitmodules. Besides, Stage is
// reserved in the same spellings, and links lead to no reserved path.
func Reserved(path, target string) (problem string) {
	for element := range strings.FieldsFuncSeq(path, isSlash) {
		switch name := plainName(element); {
		case strings.EqualFold(name, ".git"), isShort(name, "git"):
			return fmt.Sprintf("%q is git's name for its own files: choose another", element)
		case strings.EqualFold(name, Stage), isShort(name, "concla"):
			return fmt.Sprintf("%q is where conclave keeps the files of an apply that runs or was interrupted: choose another name", element)
		case target != "" && isModules(name):
			return fmt.Sprintf("%q is a file that git reads, never a link: make it a file", element)
		}
	}
	if target == "" {
		return ""
	}
	if problem = Reserved(target, ""); problem != "" {
		problem = fmt.Sprintf("it is a link to %q, and %s", target, problem)
	}
	return problem
}

// IsBelow reports whether some file system takes a path for a directory or one below it.
func IsBelow(path, dir string) bool {
	elements := strings.FieldsFunc(path, isSlash)
	for i, element := range strings.Split(dir, "/") {
		if i >= len(elements) || !strings.EqualFold(plainName(elements[i]), element) {
			return false
		}
	}
	return true
}

func isSlash(r rune) bool { return r == '/' || r == '\\' }

// plainName returns an element of a path as file systems read it: HFS+ ignores some code points and those
// after malformed ones, NTFS the spaces and dots at the end and the names of streams.
func plainName(element string) string {
	end := strings.IndexFunc(element, func(r rune) bool { return r == ':' || r == utf8.RuneError || r == 0xfffe || r == 0xffff })
	if end >= 0 {
		element = element[:end]
	}
	return strings.TrimRight(strings.Map(func(r rune) rune {
		if r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff {
			return -1
		}
		return r
	}, element), " .")
}

// isShort reports whether a name is a short one of NTFS, such as GIT~1.
func isShort(name, start string) bool {
	head, number, found := strings.Cut(name, "~")
	return found && strings.EqualFold(head, start) && number != "" && strings.Trim(number, "0123456789") == ""
}

// isModules reports whether a name is one of .gitmodules. Its second short name begins with a hash.
func isModules(name string) bool {
	const hashed = "gi7eba"
	at := strings.IndexByte(name, '~')
	return strings.EqualFold(name, ".gitmodules") || isShort(name, "gitmod") || at >= 0 && at <= len(hashed) && isShort(name, hashed[:at])
}

func checkNames(changes []Change) error {
	for _, c := range changes {
		for _, f := range []*File{c.Old, c.New} {
			if f == nil {
				continue
			}
			target := ""
			if f.Mode == Link {
				target = string(f.Content)
			}
			if problem := Reserved(f.Path, target); problem != "" {
				return &NameError{Path: f.Path, Problem: problem}
			}
		}
	}
	return nil
}

// checkRepositories refuses changes after which a directory would be a repository without .git: git
// runs the programs that its config names for whoever works in it.
func checkRepositories(root *os.Root, changes []Change) error {
	parts := map[string]map[string]bool{} // by directory
	for _, c := range changes {
		if c.New == nil {
			continue
		}
		elements := strings.Split(c.New.Path, "/")
		for i, e := range elements {
			if e = strings.ToLower(e); e == "head" && i == len(elements)-1 || e == "objects" || e == "refs" {
				dir := path.Join(elements[:i]...)
				if parts[dir] == nil {
					parts[dir] = map[string]bool{}
				}
				parts[dir][e] = true
			}
		}
	}
	for dir, all := range parts {
		before := 0
		for _, name := range []string{"HEAD", "objects", "refs"} {
			if _, err := root.Lstat(path.Join(dir, name)); err == nil {
				before, all[strings.ToLower(name)] = before+1, true
			}
		}
		if len(all) == 3 && before < len(all) {
			return &NameError{Path: path.Join(dir, "HEAD"), Problem: "with objects and refs beside it the directory would be a repository of git, whose config can name programs"}
		}
	}
	return nil
}
