"use strict";
// Beyond inferno's own script: the lines above and below the frames fit any width, and keys do what the mouse does.
(function () {
    var pad = 10, row = 18, swatch = 19, gap = 18, frame = 16, most = 5;
    var root, drawn, heading, notes, entries, size;

    function by_id(id) { return document.getElementById(id); }

    // Width of a character of the 12-pixel font: what inferno measured, or its estimate.
    function character() { return known_font_width || fontsize * fontwidth; }

    // `text` in lines of at most `most` characters.
    function wrapped(text, most) {
        var lines = [], line = "";
        text.split(" ").forEach(function (word) {
            for (; word.length > most; word = word.slice(most)) {
                if (line) lines.push(line);
                lines.push(word.slice(0, most));
                line = "";
            }
            if (line && line.length + 1 + word.length > most) { lines.push(line); line = word; }
            else line = line ? line + " " + word : word;
        });
        return lines.concat(line || []);
    }

    // Put lines into `element`, and return how much higher it became.
    function put(element, lines, x, height) {
        while (element.firstChild) element.removeChild(element.firstChild);
        lines.forEach(function (line, index) {
            var part = document.createElementNS("http://www.w3.org/2000/svg", "tspan");
            part.setAttribute("x", x);
            if (index) part.setAttribute("dy", height);
            part.textContent = line;
            element.appendChild(part);
        });
        return Math.max(0, lines.length - 1) * height;
    }

    function move(element, down) { element.setAttribute("transform", "translate(0," + down + ")"); }

    function reflow() {
        if (!root) return;
        var width = root.getBoundingClientRect().width;
        if (!width) return;
        var down = 0;
        heading.forEach(function (line) {
            move(line.element, down);
            // The first line leaves room for "Search" at its side.
            var room = width - 2 * pad - (line.scale > 1 ? 120 : 0);
            var fits = Math.max(12, Math.floor(room / (character() * line.scale)));
            down += put(line.element, wrapped(line.text, fits), "50%", line.height);
        });
        drawn.setAttribute("y", down);
        move(by_id("details"), down);
        move(by_id("matched"), down);
        var legend = by_id("legend"), added = 0;
        if (legend) {
            move(legend, down);
            var widest = Math.max.apply(null, [0].concat(entries.map(function (entry) { return entry.text.length; })));
            var fits = Math.floor((width - pad) / (swatch + gap + widest * character()));
            var columns = Math.max(1, Math.min(most, fits));
            entries.forEach(function (entry, index) {
                var x = pad + Math.floor(index % columns * (width - pad) / columns);
                var y = size.legend + Math.floor(index / columns) * row;
                entry.rect.setAttribute("x", x);
                entry.rect.setAttribute("y", y);
                entry.label.setAttribute("x", x);
                entry.label.setAttribute("y", y + 10);
            });
            var rows = Math.ceil(entries.length / columns);
            var line = Math.max(20, Math.floor((width - 2 * pad) / character()));
            notes.forEach(function (note) {
                var lines = wrapped(note.text, line);
                note.element.setAttribute("y", size.legend + rows * row + 10);
                put(note.element, lines, pad, row);
                rows += lines.length;
            });
            added = rows * row - size.rows;
        }
        var height = size.height + down + added;
        root.setAttribute("height", height);
        by_id("paper").setAttribute("height", height);
    }

    // The frame that a key leads to from `from`.
    function next(from, key) {
        var at = place(from), up = inverted ? 1 : -1, best = null, better = null;
        for (var i = 0; i < drawn.children.length; i++) {
            var g = drawn.children[i];
            if (g === from || g.classList.contains("hide")) continue;
            var to = place(g), of = null;
            if (key === "ArrowUp" && to.y === at.y + up * frame && to.x >= at.x && to.x + to.w <= at.x + at.w) of = -to.w;
            if (key === "ArrowDown" && to.y === at.y - up * frame && to.x <= at.x && to.x + to.w >= at.x + at.w) of = 0;
            if (key === "ArrowRight" && to.y === at.y && to.x > at.x) of = to.x;
            if (key === "ArrowLeft" && to.y === at.y && to.x < at.x) of = -to.x;
            if (of !== null && (best === null || of < better)) { best = g; better = of; }
        }
        return best;
    }

    function place(g) {
        var rect = g.querySelector("rect");
        return {
            x: parseInt(rect.getAttribute("fg:x")),
            w: parseInt(rect.getAttribute("fg:w")),
            y: parseFloat(rect.getAttribute("y"))
        };
    }

    function focus(g) {
        var was = drawn.querySelector("[tabindex='0']");
        if (was) was.setAttribute("tabindex", -1);
        g.setAttribute("tabindex", 0);
        g.focus();
    }

    function keys(event) {
        if (event.ctrlKey || event.altKey || event.metaKey) return;
        var on = document.activeElement, inside = on && on.parentNode === drawn;
        if (event.key === "Enter" || event.key === " ") {
            if (!on || !on.hasAttribute("tabindex")) return;
            on.dispatchEvent(new MouseEvent("click", { bubbles: true }));
        } else if (event.key === "Escape") {
            reset_search();
            unzoom();
        } else if (event.key === "/") {
            search_prompt();
        } else if (event.key.slice(0, 5) === "Arrow" && inside) {
            var to = next(on, event.key);
            if (to) focus(to);
        } else return;
        event.preventDefault();
    }

    // After inferno's init, which an attribute of the picture calls when it is loaded.
    function begin() {
        root = svg;
        drawn = frames;
        var number = function (element, name) { return parseFloat(element.getAttribute(name)); };
        heading = [["title", 17 / 12, 21], ["subtitle", 1, 16]].map(function (line) {
            var element = by_id(line[0]);
            return element && { element: element, text: element.textContent, scale: line[1], height: line[2] };
        }).filter(Boolean);
        var legend = by_id("legend"), children = legend ? Array.prototype.slice.call(legend.children) : [];
        entries = children.filter(function (child) { return child.tagName === "g"; }).map(function (g) {
            var rect = g.querySelector("rect"), label = g.querySelector("text");
            return { rect: rect, label: label, text: label.textContent };
        });
        notes = children.filter(function (child) { return child.tagName === "text"; }).map(function (element) {
            return { element: element, text: element.textContent };
        });
        size = { height: number(root, "height"), legend: 0, rows: 0 };
        if (entries.length) {
            size.legend = number(entries[0].rect, "y");
            size.rows = size.height - size.legend - 8;
        }
        var all = drawn.children[drawn.children.length - 1];
        for (var i = 0; i < drawn.children.length; i++)
            if (place(drawn.children[i]).w === total_samples && drawn.children[i].querySelector("title").textContent.slice(0, 4) === "all ")
                all = drawn.children[i];
        if (all) all.setAttribute("tabindex", 0);
        drawn.addEventListener("focusin", function (event) {
            var g = find_group(event.target) || event.target;
            if (g.parentNode === drawn) details.nodeValue = nametype + " " + g_to_text(g);
        });
        window.addEventListener("keydown", keys);
        window.addEventListener("resize", reflow);
        window.reflow = reflow;
        reflow();
    }
    window.addEventListener("load", begin);
})();
