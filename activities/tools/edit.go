package tools

import (
	"fmt"
	"slices"
	"strings"
)

func (f *Files) edit(a arguments) (string, error) {
	name, err := f.writable(a.Path)
	if err != nil {
		return "", err
	}
	content, info, err := f.load(name)
	if err != nil {
		return "", err
	}
	switch n := strings.Count(content, a.OldString); {
	case a.OldString == "":
		return "", refuse("old_string is empty; to write a whole file use write_file")
	case a.OldString == a.NewString:
		return "", refuse("old_string and new_string are the same; there is nothing to change")
	case n == 0:
		return "", refuse("old_string is not in %s%s", quote(name), nearMiss(content, a.OldString))
	case n > 1 && !a.ReplaceAll:
		return "", refuse("old_string is in %s %d times (%s); add what stands around it until it is unique, or set replace_all",
			quote(name), n, lineNumbers(content, a.OldString))
	case len(content)+n*(len(a.NewString)-len(a.OldString)) > maxFile:
		return "", refuse("%s would grow over %s", quote(name), size(maxFile))
	}
	where := lineNumbers(content, a.OldString)
	changed := strings.ReplaceAll(content, a.OldString, a.NewString)
	if err := f.put(name, strings.NewReader(changed), info.Mode().Perm()); err != nil {
		return "", err
	}
	return fmt.Sprintf("edited %s (%s)", quote(name), where), nil
}

// lineNumbers says on which lines the occurrences begin, the first few of them.
func lineNumbers(content, text string) string {
	const most = 10
	var numbers []string
	line := 1
	for {
		before, after, found := strings.Cut(content, text)
		if !found {
			break
		}
		line += strings.Count(before, "\n")
		if len(numbers) == most {
			numbers = append(numbers, "…")
			break
		}
		numbers = append(numbers, fmt.Sprint(line))
		line += strings.Count(text, "\n")
		content = after
	}
	if len(numbers) == 1 {
		return "line " + numbers[0]
	}
	return "lines " + strings.Join(numbers, ", ")
}

// nearMiss looks for the text with its white space disregarded, the commonest
// reason why an edit does not fit.
func nearMiss(content, text string) string {
	wanted := trimmedLines(strings.TrimSpace(text))
	lines := trimmedLines(content)
	if wanted[0] != "" {
		for i := range lines {
			if i+len(wanted) <= len(lines) && slices.Equal(lines[i:i+len(wanted)], wanted) {
				return fmt.Sprintf("; line %d differs from it only in spaces or line ends: read_file it and copy them exactly", i+1)
			}
		}
		for i, line := range lines {
			if strings.Contains(line, wanted[0]) {
				return fmt.Sprintf("; its first line is like line %d: read_file it and compare", i+1)
			}
		}
	}
	return "; read_file it to see what is there now"
}

func trimmedLines(text string) []string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return lines
}
