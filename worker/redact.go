package worker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// shortest is the fewest bytes of a value that is taken for a secret: fewer
// would be found in ordinary text.
const shortest = 8

// redacted takes the place of a secret.
const redacted = "[redacted]"

// redact takes the values of secret variables, given as NAME=VALUE, out of text, also
// as JSON writes them: a key that a program printed is in no prompt, transcript
// or journal.
func redact(environ []string) func([]byte) []byte {
	var written []string
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if isSecret(name) && len(value) >= shortest {
			written = append(written, forms(value)...)
		}
	}
	if len(written) == 0 {
		return func(text []byte) []byte { return text }
	}
	// A secret may begin with another one, whose place is not to be taken then: of
	// what begins at the same byte, the replacer takes the first.
	slices.SortFunc(written, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	var pairs []string
	for _, form := range slices.Compact(written) {
		pairs = append(pairs, form, redacted)
	}
	replacer := strings.NewReplacer(pairs...)
	return func(text []byte) []byte { return []byte(replacer.Replace(string(text))) }
}

// forms are the ways in which a secret stands in text: as it is, within a JSON
// string, and within a JSON string in another one, as in the arguments of a tool
// call. Encoders differ in what they escape.
func forms(secret string) []string {
	all := []string{secret}
	for _, once := range escaped(secret) {
		all = append(all, once)
		all = append(all, escaped(once)...)
	}
	return all
}

// escaped is what stands between the quotes of text as a JSON string: without
// the escapes of HTML, and with them.
func escaped(text string) []string {
	var all []string
	for _, html := range []bool{false, true} {
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(html)
		if encoder.Encode(text) == nil { // a string always can be
			quoted := strings.TrimSuffix(b.String(), "\n")
			all = append(all, quoted[1:len(quoted)-1])
		}
	}
	return all
}

// isSecret goes by the names that the public contract demands of key variables,
// by those of the AWS SDK and the Temporal CLI, and by what servers of tools call
// theirs.
func isSecret(name string) bool {
	for _, end := range []string{"_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_KEY_DATA"} {
		if strings.HasSuffix("_"+strings.ToUpper(name), end) {
			return true
		}
	}
	return false
}
