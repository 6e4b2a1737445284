package text

import (
	"bytes"
	"embed"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
)

// files are the rules of gitleaks v8.30.1, unchanged, with their licence, which every copy of the
// program thus contains, and conclave's own.
//
//go:embed gitleaks.toml gitleaks.LICENSE rules.toml
var files embed.FS

// rule describes a kind of secret in contents, in the format of gitleaks' rule file.
type rule struct {
	ID, Path, Regex string
	Keywords        []string // lower-case; one of them is in every match
	SecretGroup     int      // group of Regex that is the secret; 0 means the first that is not empty
	Entropy         float64  // bits a character that the secret has to exceed
	Allowlists      []*allowlist

	anywhere   bool    // matches need not begin at a keyword
	path, form pattern // Path; Regex, whose match is group 1
}

// allowlist describes texts that are no secrets.
type allowlist struct {
	Paths, Regexes, Stopwords []string
	RegexTarget               string // "match" compares Regexes with the whole match

	paths, regexes pattern
}

// pattern is a regular expression that is compiled when it is first used.
type pattern func() *regexp.Regexp

func joinAlternatives(expressions []string) pattern {
	return sync.OnceValue(func() *regexp.Regexp {
		if len(expressions) == 0 {
			return regexp.MustCompile(`[^\s\S]`) // nothing
		}
		return regexp.MustCompile("(?:" + strings.Join(expressions, ")|(?:") + ")")
	})
}

func (a *allowlist) allowsMatch(match, secret []byte) bool {
	target := secret
	if a.RegexTarget == "match" {
		target = match
	}
	return a.regexes().Match(target) || slices.ContainsFunc(a.Stopwords, func(word string) bool {
		return bytes.Contains(bytes.ToLower(secret), []byte(word))
	})
}

// data is a rule file. Only conclave's own has the first four.
type data struct {
	Without, Anywhere, Names []string
	Examples                 string
	Allowlist                allowlist
	Rules                    []*rule
}

// rules are all kinds of files with secrets.
type rules struct {
	names, examples *regexp.Regexp
	allowed         *allowlist
	plain           []*rule               // rules without keywords
	heads           [1 << headBits]uint16 // places in keywords, by the first characters; 0 is none
	keywords        [][]keyword
}

// keyword is a text that the matches of some rules contain.
type keyword struct {
	text  []byte
	rules []*rule
}

// headBits is the number of bits that represent three characters, in upper and lower case alike.
const headBits = 15

func nextHead(before int, c byte) int { return (before<<5 | int(c&31)) & (1<<headBits - 1) }

// known returns the rules that the program contains.
var known = sync.OnceValue(func() *rules {
	var theirs, ours data
	_, _ = toml.DecodeFS(files, "gitleaks.toml", &theirs) // a test decodes both
	_, _ = toml.DecodeFS(files, "rules.toml", &ours)
	k := &rules{
		names:    regexp.MustCompile(`/(?:` + strings.Join(ours.Names, "|") + `)$`),
		examples: regexp.MustCompile(ours.Examples),
		allowed:  &theirs.Allowlist,
		keywords: make([][]keyword, 1),
	}
	theirs.Rules = slices.DeleteFunc(theirs.Rules, func(r *rule) bool { return slices.Contains(ours.Without, r.ID) })
	for _, r := range append(theirs.Rules, ours.Rules...) {
		r.anywhere = len(r.Keywords) == 0 || slices.Contains(ours.Anywhere, r.ID)
		k.addRule(r)
	}
	return k
})

func (k *rules) addRule(r *rule) {
	r.path = joinAlternatives([]string{r.Path})
	form := "(" + r.Regex + ")"
	if !r.anywhere { // the text before the keyword decides nothing
		form = "^(?s:.?)" + strings.ReplaceAll(form, `[\w.-]{0,50}?`, "")
	}
	r.form = joinAlternatives([]string{form})
	r.Allowlists = append(r.Allowlists, k.allowed)
	for _, a := range r.Allowlists {
		a.paths, a.regexes = joinAlternatives(a.Paths), joinAlternatives(a.Regexes)
	}
	if len(r.Keywords) == 0 {
		k.plain = append(k.plain, r)
	}
	for _, text := range r.Keywords {
		for c := range byte(32) { // the third character, if there is one
			if len(text) == 2 || c == text[2]&31 {
				k.indexRule(nextHead(nextHead(nextHead(0, text[0]), text[1]), c), text, r)
			}
		}
	}
}

func (k *rules) indexRule(head int, text string, r *rule) {
	if k.heads[head] == 0 {
		k.heads[head] = uint16(len(k.keywords))
		k.keywords = append(k.keywords, nil)
	}
	list := &k.keywords[k.heads[head]]
	i := slices.IndexFunc(*list, func(w keyword) bool { return string(w.text) == text })
	if i < 0 {
		i, *list = len(*list), append(*list, keyword{text: []byte(text)})
	}
	(*list)[i].rules = append((*list)[i].rules, r)
}

// findSecret tries a rule only at its keywords: running every pattern over every file is too slow.
func (k *rules) findSecret(name string, content []byte) bool {
	searched := map[*rule]bool{}
	h := 0
	for i, c := range content {
		h = nextHead(h, c)
		if k.heads[h] == 0 || i < 2 {
			continue
		}
		at, rest := i-2, content[i-2:]
		for _, w := range k.keywords[k.heads[h]] {
			if len(rest) < len(w.text) || !bytes.EqualFold(rest[:len(w.text)], w.text) {
				continue
			}
			for _, r := range w.rules {
				if !searched[r] && r.matchesAt(content, at) && r.coversFile(name) {
					return true
				}
				if r.anywhere {
					searched[r] = true
				}
			}
		}
	}
	return slices.ContainsFunc(k.plain, func(r *rule) bool { return r.coversFile(name) && r.matchesAt(content, 0) })
}

func (r *rule) coversFile(name string) bool {
	return r.path().MatchString(name) && !slices.ContainsFunc(r.Allowlists, func(a *allowlist) bool { return a.paths().MatchString(name) })
}

// maxSecret is the number of bytes that suffice to recognize a secret from a keyword on.
const maxSecret = 1024

// matchesAt reports whether a secret begins at a keyword or, if it may, is anywhere in the content.
func (r *rule) matchesAt(content []byte, at int) bool {
	if r.anywhere {
		return slices.ContainsFunc(r.form().FindAllSubmatch(content, -1), r.isSecret)
	}
	if at > 0 && isWord(content[at-1]) && strings.HasPrefix(r.Regex, `\b`) {
		return false
	}
	m := r.form().FindSubmatch(content[max(at-1, 0):min(at+maxSecret, len(content))])
	return m != nil && r.isSecret(m)
}

func (r *rule) isSecret(groups [][]byte) bool {
	match, secret := groups[1], groups[1]
	if r.SecretGroup > 0 {
		secret = groups[1+r.SecretGroup]
	} else if i := slices.IndexFunc(groups[2:], func(g []byte) bool { return len(g) > 0 }); i >= 0 {
		secret = groups[2+i]
	}
	return (r.Entropy == 0 || entropy(secret) > r.Entropy) && !slices.ContainsFunc(r.Allowlists, func(a *allowlist) bool { return a.allowsMatch(match, secret) })
}

// entropy returns Shannon's entropy of a text, in bits a character.
func entropy(text []byte) (bits float64) {
	counts := map[byte]float64{}
	for _, c := range text {
		counts[c]++
	}
	for _, n := range counts {
		share := n / float64(len(text))
		bits -= share * math.Log2(share)
	}
	return bits
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// maxScanned is the size, in bytes, up to which contents are searched for secrets.
const maxScanned = 1 << 20

// SecretFile reports whether a file holds credentials, judging by its path, or by a private
// key, a token or a password in its content.
func SecretFile(name string, content []byte) bool {
	r := known()
	name = path.Clean("/" + name)
	if folded := strings.ToLower(name); r.names.MatchString(folded) && !r.examples.MatchString(folded) {
		return true
	}
	binary := bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0 // as git judges
	return len(content) <= maxScanned && !binary && r.findSecret(name, content)
}

// ShellQuote quotes a word for a shell if necessary.
func ShellQuote(word string) string {
	safe := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-./:=@%+,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !safe(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
