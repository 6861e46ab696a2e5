package changes

import (
	"fmt"
	"strings"
)

const (
	// around is how many unchanged lines surround a change.
	around = 3
	// mostCells bounds the table that finds the longest common lines. What is larger counts as replaced.
	mostCells = 16 << 20
)

// edit is a line of a difference: kept (' '), removed ('-') or added ('+').
type edit struct {
	mark byte
	text string
}

// Unified returns the difference of two texts in the unified format, "" if they are equal.
func Unified(fromName, toName, from, to string) string {
	if from == to {
		return ""
	}
	edits := edits(lines(from), lines(to))
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", fromName, toName)
	for _, h := range hunks(edits) {
		h.write(&out, edits)
	}
	return out.String()
}

// lines splits a text; its last line need not end in a line break.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// edits returns the shortest way from one text to another one.
func edits(from, to []string) (all []edit) {
	head := 0
	for head < min(len(from), len(to)) && from[head] == to[head] {
		head++
	}
	tail := 0
	for tail < min(len(from), len(to))-head && from[len(from)-1-tail] == to[len(to)-1-tail] {
		tail++
	}
	add := func(mark byte, texts []string) {
		for _, t := range texts {
			all = append(all, edit{mark, t})
		}
	}
	add(' ', from[:head])
	a, b := from[head:len(from)-tail], to[head:len(to)-tail]
	if len(a)*len(b) > mostCells {
		add('-', a)
		add('+', b)
	} else {
		all = append(all, between(a, b)...)
	}
	add(' ', from[len(from)-tail:])
	return all
}

// between finds the longest common lines with a table of their numbers.
func between(a, b []string) (all []edit) {
	width := len(b) + 1
	common := make([]int32, (len(a)+1)*width) // of a[i:] and b[j:]
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i*width+j] = common[(i+1)*width+j+1] + 1
			} else {
				common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			all = append(all, edit{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[(i+1)*width+j] >= common[i*width+j+1]:
			all = append(all, edit{'-', a[i]})
			i++
		default:
			all = append(all, edit{'+', b[j]})
			j++
		}
	}
	return all
}

// hunk is a range of edits that are close to each other, with the lines around them.
type hunk struct{ start, end int }

func hunks(edits []edit) (all []hunk) {
	for i := range edits {
		if edits[i].mark == ' ' {
			continue
		}
		start, end := max(0, i-around), min(len(edits), i+1+around)
		if n := len(all); n > 0 && start <= all[n-1].end {
			all[n-1].end = end
			continue
		}
		all = append(all, hunk{start, end})
	}
	return all
}

func (h hunk) write(out *strings.Builder, edits []edit) {
	fromLine, toLine := 1, 1
	for _, e := range edits[:h.start] {
		fromLine += bit(e.mark != '+')
		toLine += bit(e.mark != '-')
	}
	fromCount, toCount := 0, 0
	for _, e := range edits[h.start:h.end] {
		fromCount += bit(e.mark != '+')
		toCount += bit(e.mark != '-')
	}
	fmt.Fprintf(out, "@@ -%s +%s @@\n", position(fromLine, fromCount), position(toLine, toCount))
	for _, e := range edits[h.start:h.end] {
		fmt.Fprintf(out, "%c%s\n", e.mark, e.text)
	}
}

// position names lines as diff does: none by the line before them.
func position(line, count int) string {
	if count == 0 {
		line--
	}
	if count == 1 {
		return fmt.Sprint(line)
	}
	return fmt.Sprintf("%d,%d", line, count)
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
