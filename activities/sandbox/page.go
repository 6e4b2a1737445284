package sandbox

import (
	"math"
	"strings"

	"github.com/ledongthuc/pdf"
)

// matrix is a transformation of the plane as PDF writes it (ISO 32000, 8.3.3).
type matrix [6]float64

var identity = matrix{1, 0, 0, 1, 0, 0}

func (m matrix) multiplyBy(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

// maxForms bounds the forms inside forms of a page.
const maxForms = 8

// pageReader follows the content of a page, which paints strings at positions; lines and most spaces
// are only distances.
type pageReader struct {
	text  strings.Builder
	page  matrix   // from the user space of the content to the page
	saved []matrix // by q, for Q
	line  matrix   // begin of the text line
	x     float64  // distance from there, in text space
	font  *pageFont
	size  float64
	down  float64 // distance of lines
	extra [2]float64
	end   [2]float64 // where the last string ended, on the page
	forms int
}

func pageText(p pdf.Page) string {
	r := &pageReader{page: identity, line: identity}
	r.interpretContent(p.Resources(), p.V.Key("Contents"))
	return r.text.String()
}

// interpretContent interprets the operators for text and positions (ISO 32000, 9.4).
func (r *pageReader) interpretContent(resources, content pdf.Value) {
	fonts := map[string]*pageFont{}
	pdf.Interpret(content, func(stack *pdf.Stack, operator string) {
		args := make([]pdf.Value, stack.Len())
		for i := len(args) - 1; i >= 0; i-- {
			args[i] = stack.Pop()
		}
		args = append(args, make([]pdf.Value, 6)...) // missing ones are null, which is 0
		switch operator {
		case "q":
			r.saved = append(r.saved, r.page)
		case "Q":
			if last := len(r.saved) - 1; last >= 0 {
				r.page, r.saved = r.saved[last], r.saved[:last]
			}
		case "cm":
			r.page = matrixOf(args).multiplyBy(r.page)
		case "Tf":
			name := args[0].Name()
			if fonts[name] == nil {
				fonts[name] = newPageFont(resources.Key("Font").Key(name))
			}
			r.font, r.size = fonts[name], args[1].Float64()
		case "Do":
			form := resources.Key("XObject").Key(args[0].Name())
			if form.Key("Subtype").Name() == "Form" && r.forms < maxForms {
				r.forms++
				r.interpretContent(form.Key("Resources"), form)
				r.forms--
			}
		default:
			r.applyOperator(operator, args)
		}
	})
}

// applyOperator follows the operators of a text object.
func (r *pageReader) applyOperator(operator string, args []pdf.Value) {
	switch operator {
	case "BT":
		r.line, r.x = identity, 0
	case "Tm":
		r.line, r.x = matrixOf(args), 0
	case "TL":
		r.down = args[0].Float64()
	case "Tc":
		r.extra[0] = args[0].Float64()
	case "Tw":
		r.extra[1] = args[0].Float64()
	case "Td":
		r.moveLine(args[0].Float64(), args[1].Float64())
	case "TD":
		r.down = -args[1].Float64()
		r.moveLine(args[0].Float64(), args[1].Float64())
	case "T*":
		r.moveLine(0, -r.down)
	case "Tj":
		r.paintString(args[0].RawString())
	case "'":
		r.moveLine(0, -r.down)
		r.paintString(args[0].RawString())
	case "\"":
		r.extra = [2]float64{args[1].Float64(), args[0].Float64()}
		r.moveLine(0, -r.down)
		r.paintString(args[2].RawString())
	case "TJ":
		for i := range args[0].Len() {
			if part := args[0].Index(i); part.Kind() == pdf.String {
				r.paintString(part.RawString())
			} else {
				r.x -= part.Float64() / 1000 * r.size
			}
		}
	}
}

func (r *pageReader) moveLine(x, y float64) {
	r.line, r.x = matrix{1, 0, 0, 1, x, y}.multiplyBy(r.line), 0
}

// paintString adds a string, after a line break if it stands higher or lower than the one before by half its
// size, and after a space if there is room for one between them.
func (r *pageReader) paintString(s string) {
	if r.font == nil || s == "" {
		return
	}
	at := matrix{1, 0, 0, 1, r.x, 0}.multiplyBy(r.line).multiplyBy(r.page)
	tall := math.Abs(r.size) * math.Hypot(at[2], at[3])
	across, up := at[4]-r.end[0], at[5]-r.end[1]
	before := r.text.String()
	switch {
	case before == "" || strings.HasSuffix(before, "\n"):
	case math.Abs(up) > tall/2:
		r.text.WriteByte('\n')
	case math.Abs(across) > tall*0.15 && !strings.HasSuffix(before, " "):
		r.text.WriteByte(' ')
	}
	r.text.WriteString(strings.ToValidUTF8(r.font.encoding.Decode(s), "\uFFFD"))
	r.x += r.font.measureString(s)*r.size + r.extra[0]*float64(len(s)) + r.extra[1]*float64(strings.Count(s, " "))
	end := matrix{1, 0, 0, 1, r.x, 0}.multiplyBy(r.line).multiplyBy(r.page)
	r.end = [2]float64{end[4], end[5]}
}

func matrixOf(args []pdf.Value) (m matrix) {
	for i := range m {
		m[i] = args[i].Float64()
	}
	return m
}

// pageFont decodes strings and measures them.
type pageFont struct {
	encoding pdf.TextEncoding
	wide     bool            // two bytes a code
	widths   map[int]float64 // in thousandths of the size
	other    float64         // width of other codes
}

func newPageFont(v pdf.Value) *pageFont {
	font := pdf.Font{V: v}
	f := &pageFont{encoding: font.Encoder(), widths: map[int]float64{}, other: 500}
	if v.Key("Subtype").Name() != "Type0" {
		for i, width := range font.Widths() {
			f.widths[font.FirstChar()+i] = width
		}
		return f
	}
	f.wide, f.other = true, 1000
	base := v.Key("DescendantFonts").Index(0)
	if base.Key("DW").Kind() != pdf.Null {
		f.other = base.Key("DW").Float64()
	}
	list := base.Key("W") // first [width …] or first last width (ISO 32000, 9.7.4.3)
	for i := 0; i+1 < list.Len(); {
		first, next := int(list.Index(i).Int64()), list.Index(i+1)
		if next.Kind() == pdf.Array {
			for j := range next.Len() {
				f.widths[first+j] = next.Index(j).Float64()
			}
			i += 2
			continue
		}
		for code := first; code <= min(int(next.Int64()), first+0xFFFF); code++ {
			f.widths[code] = list.Index(i + 2).Float64()
		}
		i += 3
	}
	return f
}

// measureString returns the width of a string, in units of the size.
func (f *pageFont) measureString(s string) (sum float64) {
	bytes := 1
	if f.wide {
		bytes = 2
	}
	for i := 0; i+bytes <= len(s); i += bytes {
		code := int(s[i])
		if f.wide {
			code = code<<8 | int(s[i+1])
		}
		width, known := f.widths[code]
		if !known {
			width = f.other
		}
		sum += width / 1000
	}
	return sum
}
