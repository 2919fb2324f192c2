// Menus close by Esc, by a click elsewhere, and when the focus leaves them, as people expect of menus.

const menus = [...document.querySelectorAll("details[data-chatmemory-menu]")];

document.addEventListener("keydown", (event) => {
    const open = menus.filter((menu) => menu.open);
    if (event.key !== "Escape" || !open.length) return;
    // The last is the innermost: a menu stands before those that are in it.
    const menu = open.findLast((each) => each.contains(document.activeElement)) ?? open.at(-1);
    menu.open = false;
    menu.querySelector("summary").focus();
});

function closeWithout(target) {
    for (const menu of menus) if (menu.open && !menu.contains(target)) menu.open = false;
}

document.addEventListener("click", (event) => closeWithout(event.target));

// Not at every change of the focus: a click on no link gives it to the page, and the menu is to stay.
document.addEventListener("keyup", (event) => {
    if (event.key === "Tab") closeWithout(document.activeElement);
});
