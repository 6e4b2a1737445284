package page

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
)

// change is a patch as the data of a template.
type change struct {
	Files          []changedFile
	Added, Deleted int    // number of lines
	More           int    // files without their lines, for want of room
	Hash           string // hash of the patch
}

// changedFile is a file of a patch.
type changedFile struct {
	Path           string
	Note           string // changes of the file besides its lines
	Added, Deleted int
	Lines          []patchLine
	Hidden         bool // the lines are left out for want of room
	Open           bool
}

// patchLine is a line of a patch with its number in the new file, or in the old one for a deleted
// line.
type patchLine struct{ Kind, Sign, Number, Text string }

// Spread returns the widths of the bars for added and deleted lines, as percentages.
func (f changedFile) Spread() [2]string {
	all := float64(max(1, f.Added+f.Deleted))
	return [2]string{cssPercent(float64(f.Added) / all), cssPercent(float64(f.Deleted) / all)}
}

// HashOfPatch returns the hash by which an answer's change is recognized.
func HashOfPatch(patch string) string {
	sum := sha256.Sum256([]byte(patch))
	return hex.EncodeToString(sum[:])
}

// changeOf prepares a patch in git's extended format for the page. It returns nil without one. The lines of
// later files are left out beyond the limit.
func changeOf(patch string, limit int) *change {
	const most, open = 400 << 10, 600 // bytes of lines, and lines that are unfolded at first
	if patch == "" {
		return nil
	}
	c := &change{Hash: HashOfPatch(patch)}
	room, shown := min(most, 16*limit), 0
	for _, part := range strings.Split("\n"+patch, "\ndiff --git ")[1:] {
		f, size := parseFile(part)
		c.Added, c.Deleted = c.Added+f.Added, c.Deleted+f.Deleted
		if room -= size; room < 0 {
			f.Lines, f.Hidden = nil, true
			c.More++
		}
		shown += len(f.Lines)
		f.Open = shown <= open && len(f.Lines) > 0
		c.Files = append(c.Files, f)
	}
	return c
}

// notes are the beginnings of header lines about the fate of a file.
var notes = []struct{ prefix, note string }{
	{"new file mode 120000", "new link"},
	{"new file mode", "new"},
	{"deleted file mode", "deleted"},
	{"rename from ", "renamed from "},
	{"new mode 100755", "made executable"},
	{"new mode 100644", "no longer executable"},
	{"GIT binary patch", "binary"},
}

// hunk matches the header of a hunk, with its first line in the old and in the new file.
var hunk = regexp.MustCompile(`^@@ -(\d+)(?:,\d+)? \+(\d+)`)

// parseFile reads the part of a patch about one file. Size is that of its lines in bytes.
func parseFile(part string) (f changedFile, size int) {
	lines := strings.Split(strings.TrimSuffix(part, "\n"), "\n")
	f.Path = pathOf(lines[0])
	old, current, inHunk := 0, 0, false
	for _, line := range lines[1:] {
		if at := hunk.FindStringSubmatch(line); at != nil {
			old, _ = strconv.Atoi(at[1])
			current, _ = strconv.Atoi(at[2])
			inHunk = true
			f.Lines = append(f.Lines, patchLine{Kind: "at", Text: cleanLine(line)})
			continue
		}
		if !inHunk {
			f.readHeader(line)
			continue
		}
		l := patchLine{Kind: "same", Sign: " ", Text: cleanText(strings.TrimPrefix(line, " "))}
		switch {
		case strings.HasPrefix(line, "+"):
			l = patchLine{"add", "+", strconv.Itoa(current), cleanText(line[1:])}
			f.Added, current = f.Added+1, current+1
		case strings.HasPrefix(line, "-"):
			l = patchLine{"del", "−", strconv.Itoa(old), cleanText(line[1:])}
			f.Deleted, old = f.Deleted+1, old+1
		case strings.HasPrefix(line, `\`):
			l.Kind, l.Text = "at", "no newline at the end"
		default:
			l.Number = strconv.Itoa(current)
			old, current = old+1, current+1
		}
		size += len(l.Text) + 40
		f.Lines = append(f.Lines, l)
	}
	return f, size
}

// readHeader notes the news about the file in a line above the first hunk.
func (f *changedFile) readHeader(line string) {
	for _, n := range notes {
		rest, found := strings.CutPrefix(line, n.prefix)
		if !found {
			continue
		}
		note := n.note
		if strings.HasSuffix(note, " ") {
			note += cleanLine(unquotePath(rest))
		}
		if f.Note != "" {
			note = f.Note + ", " + note
		}
		f.Note = note
		return
	}
}

// pathOf returns the new path in the rest of the line "diff --git a/old b/new".
func pathOf(names string) string {
	_, path, found := strings.Cut(names, ` "b/`)
	if found {
		return cleanLine(unquotePath(`"` + path))
	}
	if half := (len(names) - 1) / 2; len(names)%2 == 1 && len(names) > 4 && names[2:half] == names[half+3:] {
		return cleanLine(names[half+3:]) // equal names, which may have spaces
	}
	if _, path, found = strings.Cut(names, " b/"); !found {
		path = names
	}
	return cleanLine(path)
}

// unquotePath decodes a path that git has quoted, and returns any other unchanged.
func unquotePath(path string) string {
	if plain, err := strconv.Unquote(path); err == nil && strings.HasPrefix(path, `"`) {
		return plain
	}
	return path
}
