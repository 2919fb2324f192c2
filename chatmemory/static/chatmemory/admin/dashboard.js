// A chart tells the number of the bar that is pointed at or has the focus. Its bars are one stop for the Tab key.

const STEPS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

for (const chart of document.querySelectorAll(".chatmemory-chart")) {
    const value = chart.querySelector("[data-chatmemory-value]");
    const peak = value.textContent;
    const links = [...chart.querySelectorAll("a.chatmemory-column")];

    const show = (place) => {
        // The focus may be in another chart.
        const column = chart.contains(place) ? place.closest(".chatmemory-column") : null;
        value.textContent = column ? column.querySelector("title").textContent : peak;
    };

    const stopAt = (stop) => {
        for (const link of links) link.setAttribute("tabindex", link === stop ? "0" : "-1");
    };

    stopAt(links.at(-1));
    chart.addEventListener("pointerover", (event) => show(event.target));
    chart.addEventListener("pointerleave", () => show(document.activeElement));
    chart.addEventListener("focusin", (event) => {
        stopAt(event.target);
        show(event.target);
    });
    chart.addEventListener("focusout", () => show(null));
    chart.addEventListener("keydown", (event) => {
        const step = STEPS[event.key];
        const place = links.indexOf(event.target);
        if (!step || place < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        const turned = getComputedStyle(chart).direction === "rtl" && Number.isFinite(step) ? -step : step;
        links[Math.min(Math.max(place + turned, 0), links.length - 1)].focus();
    });
}
